import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Redis from 'ioredis';
import { publishOutboxBatch } from './outbox.mjs';

/**
 * One leader at a time for `name`. `serve(signal)` runs while this process leads and must return within
 * ttlMs / 4 after the signal fires. A leader that was suspended may wake up for a moment next to its successor,
 * so what it does has to bear a repetition.
 */
export class LeaderElection {
  #stop = new AbortController();

  constructor(redis, { name, ttlMs = 16_000, serve }) {
    this.redis = redis;
    this.key = `leader:${name}`;
    this.ttlMs = ttlMs;
    this.serve = serve;
    redis.defineCommand('renewIfOwner', {
      numberOfKeys: 1,
      lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
              return redis.call('pexpire', KEYS[1], ARGV[2])
            end
            return 0`,
    });
    redis.defineCommand('deleteIfOwner', {
      numberOfKeys: 1,
      lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
              return redis.call('del', KEYS[1])
            end
            return 0`,
    });
  }

  async run() {
    const stop = this.#stop.signal;
    while (!stop.aborted) {
      const token = randomUUID();
      const sentAt = performance.now();
      try {
        if ((await this.redis.set(this.key, token, 'PX', this.ttlMs, 'NX')) === 'OK') {
          await this.#term(token, sentAt);
        }
      } catch (err) {
        console.error('election round failed', err);
      }
      await delay(this.ttlMs / 4 + Math.random() * 500, undefined, { signal: stop }).catch(() => {});
    }
  }

  stop() {
    this.#stop.abort(new Error('shutting down'));
  }

  async #term(token, electedAt) {
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#stop.signal]);
    let watchdog;
    // counted from before the command was sent; a quarter of the lease is kept for stepping down
    const leaseFrom = (sentAt) => {
      clearTimeout(watchdog);
      const left = sentAt + this.ttlMs * 0.75 - performance.now();
      if (left <= 0) over.abort(new Error('lease ran out'));
      else watchdog = setTimeout(() => over.abort(new Error('lease ran out')), left);
    };
    leaseFrom(electedAt);

    const duty = (async () => {
      if (!signal.aborted) await this.serve(signal);
    })()
      .catch((err) => console.error('leader duty ended', err))
      .finally(() => over.abort(new Error('duty ended')));

    while (!signal.aborted) {
      await delay(this.ttlMs / 4, undefined, { signal }).catch(() => {});
      if (signal.aborted) break;
      const sentAt = performance.now();
      try {
        const renewed = await this.redis.renewIfOwner(this.key, token, this.ttlMs);
        if (renewed !== 1) over.abort(new Error('somebody else leads'));
        else if (!signal.aborted) leaseFrom(sentAt);
      } catch (err) {
        console.warn('renewal failed, watchdog decides', err.message);
      }
    }
    clearTimeout(watchdog);
    await duty; // do not invite a successor before our own work has stopped
    await this.redis.deleteIfOwner(this.key, token).catch(() => {});
  }
}

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000 });
redis.on('error', (err) => console.error('redis', err.message));

const election = new LeaderElection(redis, {
  name: 'outbox-relay',
  async serve(signal) {
    // consumers drop events whose id they have seen, so a batch sent twice does no harm
    while (!signal.aborted) {
      await publishOutboxBatch({ limit: 50, timeoutMs: 1_500 });
      await delay(1_000, undefined, { signal }).catch(() => {});
    }
  },
});
process.once('SIGTERM', () => election.stop());
election.run().finally(() => redis.quit());
