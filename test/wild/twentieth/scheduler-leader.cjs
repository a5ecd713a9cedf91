'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { Redis } = require('ioredis');

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

/**
 * One scheduler of many is the leader and fires the due timers.
 */
class SchedulerLeader {
  constructor({ url = process.env.REDIS_URL, group, leaseMs = 15_000, safetyMs = 3_000 }) {
    this.redis = new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
    this.redis.on('error', (err) => console.warn('leader redis', err.message));
    this.key = `leader:${group}`;
    this.id = randomUUID();
    this.leaseMs = leaseMs;
    this.safetyMs = safetyMs;
    this.leaseUntil = 0;
    this.stopping = new AbortController();
    this.loop = undefined;
    this.step = undefined;
  }

  /** True only while the lease certainly has not expired, with time left for one step. */
  isLeader() {
    return performance.now() < this.leaseUntil - this.safetyMs;
  }

  start() {
    this.loop ??= this.campaign();
  }

  async campaign() {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const sentAt = performance.now();
      try {
        const won =
          (await this.redis.eval(RENEW, 1, this.key, this.id, this.leaseMs)) === 1 ||
          (await this.redis.set(this.key, this.id, 'PX', this.leaseMs, 'NX')) === 'OK';
        this.leaseUntil = won ? sentAt + this.leaseMs : 0;
      } catch (err) {
        // No news: the old lease simply runs on to its end.
        console.warn('campaign', err.message);
      }
      await sleep(this.leaseMs / 5 + Math.random() * 200, undefined, { signal }).catch(() => {});
    }
  }

  /** Fires due timers one at a time and stops at once when leadership is over. */
  async fireDue(timers, fire) {
    let fired = 0;
    for (const timer of timers) {
      if (!this.isLeader()) break;
      this.step = fire(timer, AbortSignal.timeout(this.safetyMs - 1_000));
      await this.step;
      fired++;
    }
    return fired;
  }

  /** Gives leadership up, so that the successor need not wait for the expiry. */
  async resign() {
    this.stopping.abort();
    await this.loop;
    this.leaseUntil = 0;
    // the step in flight ends within the safety time, only then may a successor begin
    await Promise.resolve(this.step).catch(() => {});
    // WATCH is a state of the connection: use one of its own, which is never reconnected.
    const once = this.redis.duplicate({ retryStrategy: () => null, autoResendUnfulfilledCommands: false });
    once.on('error', (err) => console.warn('resign redis', err.message));
    try {
      await once.watch(this.key);
      if ((await once.get(this.key)) === this.id) {
        // null if the key changed after WATCH; then it isn't ours any more
        await once.multi().del(this.key).exec();
      }
    } catch (err) {
      console.warn('resign', err.message);
    } finally {
      once.disconnect();
      this.redis.disconnect();
    }
  }
}

module.exports = { SchedulerLeader };
