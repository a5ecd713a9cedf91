import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

export class LockUnavailableError extends Error {}
export class LockLostError extends Error {}

/**
 * Redlock over N independent masters (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
 *
 * The masters must not replicate each other, and must either fsync every write
 * or stay down for longer than the longest TTL after a crash.
 */
export class MultiLock {
  constructor(urls, { ttl = 15_000, nodeTimeout = 250, retries = 8, retryDelay = 200 } = {}) {
    this.clients = urls.map((url) => {
      const client = createClient({ url, disableOfflineQueue: true, socket: { connectTimeout: 1_000 } });
      client.on('error', (err) => console.error('[multilock] %s: %s', url, err.message));
      return client;
    });
    this.quorum = Math.floor(urls.length / 2) + 1;
    Object.assign(this, { ttl, nodeTimeout, retries, retryDelay });
  }

  async connect() {
    // connect() keeps retrying in the background, we only need to kick it off
    for (const c of this.clients) c.connect().catch(() => {});
    for (let i = 0; i < 50 && this.clients.filter((c) => c.isReady).length < this.quorum; i++) await sleep(100);
  }

  #onAll(command) {
    return Promise.allSettled(
      this.clients.map((c) =>
        Promise.race([
          command(c),
          sleep(this.nodeTimeout, undefined, { ref: false }).then(() => {
            throw new Error('node timeout');
          }),
        ]),
      ),
    );
  }

  #validUntil(sentAt) {
    const drift = Math.ceil(this.ttl * 0.01) + 2;
    return sentAt + this.ttl - drift;
  }

  async acquire(key) {
    for (let attempt = 0; attempt <= this.retries; attempt++) {
      const lock = { key, token: randomUUID(), validUntil: 0 };
      const sentAt = performance.now();
      const replies = await this.#onAll((c) =>
        c.set(key, lock.token, { condition: 'NX', expiration: { type: 'PX', value: this.ttl } }),
      );
      const granted = replies.filter((r) => r.value === 'OK').length;
      lock.validUntil = this.#validUntil(sentAt);
      if (granted >= this.quorum && performance.now() < lock.validUntil) return lock;
      await this.release(lock);
      await sleep(this.retryDelay * (0.5 + Math.random()));
    }
    throw new LockUnavailableError(`could not lock ${key}`);
  }

  /** @returns {Promise<'extended' | 'lost' | 'unclear'>} */
  async extend(lock) {
    const sentAt = performance.now();
    if (sentAt >= lock.validUntil) return 'lost';
    const replies = await this.#onAll((c) =>
      c.eval(EXTEND, { keys: [lock.key], arguments: [lock.token, String(this.ttl)] }),
    );
    if (replies.filter((r) => r.value === 1).length >= this.quorum) {
      lock.validUntil = this.#validUntil(sentAt);
      return 'extended';
    }
    const refused = replies.filter((r) => r.value === 0).length;
    return refused > this.clients.length - this.quorum ? 'lost' : 'unclear';
  }

  async release(lock) {
    await this.#onAll((c) => c.eval(RELEASE, { keys: [lock.key], arguments: [lock.token] }));
  }

  /**
   * Runs fn(signal) under the lock and keeps extending it. The signal aborts a
   * tenth of the TTL before the lock can run out.
   */
  async using(key, fn) {
    const lock = await this.acquire(key);
    const work = new AbortController();
    const stop = new AbortController();
    const lose = () => work.abort(new LockLostError(`lost ${key}`));
    let alarm;
    const arm = () => {
      clearTimeout(alarm);
      alarm = setTimeout(lose, Math.max(0, lock.validUntil - performance.now() - this.ttl * 0.1));
    };
    arm();

    const renewal = (async () => {
      let pause = this.ttl / 3;
      for (;;) {
        await sleep(pause, undefined, { signal: stop.signal }).catch(() => {});
        if (stop.signal.aborted || work.signal.aborted) return;
        const outcome = await this.extend(lock);
        if (outcome === 'lost') return lose();
        if (outcome === 'extended' && !work.signal.aborted) arm();
        pause = outcome === 'extended' ? this.ttl / 3 : this.ttl / 15;
      }
    })();

    try {
      return await fn(work.signal);
    } finally {
      stop.abort();
      await renewal;
      clearTimeout(alarm);
      await this.release(lock);
    }
  }
}
