import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/** Emits 'elected' and 'deposed'. At most one worker of a group is the leader. */
export class LeaderElection extends EventEmitter {
  constructor(redis, group, { ttl = 10_000 } = {}) {
    super();
    this.redis = redis;
    this.key = `leader:${group}`;
    this.ttl = ttl;
    this.id = randomUUID();
    this.isLeader = false;
    this.stopped = false;
  }

  async start() {
    while (!this.stopped) {
      try {
        if (this.isLeader) await this.renew();
        else await this.campaign();
      } catch (err) {
        // Redis hiccup, we try again on the next round
        console.warn(`[leader] ${err.message}`);
      }
      await sleep(this.ttl / 3);
    }
  }

  async campaign() {
    const reply = await this.redis.set(this.key, this.id, 'PX', this.ttl, 'NX');
    if (reply !== 'OK') return;
    if (this.stopped) {
      await this.redis.eval(RESIGN, 1, this.key, this.id);
    } else {
      this.isLeader = true;
      this.emit('elected');
    }
  }

  async renew() {
    const kept = await this.redis.eval(RENEW, 1, this.key, this.id, this.ttl);
    if (kept !== 1) {
      this.isLeader = false;
      this.emit('deposed');
    }
  }

  async stop() {
    this.stopped = true;
    if (!this.isLeader) return;
    this.isLeader = false;
    this.emit('deposed');
    await this.redis.eval(RESIGN, 1, this.key, this.id).catch(() => {});
  }
}

export function runScheduler(url, dispatchDueJobs) {
  const redis = new Redis(url, { commandTimeout: 2_000 });
  redis.on('error', (err) => console.error(`[redis] ${err.message}`));

  const election = new LeaderElection(redis, 'scheduler');
  let timer;
  election.on('elected', () => {
    console.log('[leader] this instance dispatches the jobs now');
    timer = setInterval(() => {
      dispatchDueJobs().catch((err) => console.error('[scheduler]', err));
    }, 1_000);
  });
  election.on('deposed', () => {
    console.log('[leader] stepping down');
    clearInterval(timer);
  });
  process.once('SIGTERM', async () => {
    await election.stop();
    redis.disconnect();
  });
  return election.start();
}
