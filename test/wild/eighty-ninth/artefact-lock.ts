/**
 * Exclusive access to one artefact record of the collection.
 *
 * The loans desk, the conservation lab and the nightly importer all edit the
 * same records; `ArtefactLock#run` lets one of them in at a time.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

/** Somebody else kept the artefact for longer than we were ready to wait. */
export class ArtefactBusyError extends Error {
  override name = 'ArtefactBusyError';
}

/** We had the artefact, but can no longer prove that we still do. */
export class ArtefactLockLostError extends Error {
  override name = 'ArtefactLockLostError';
}

export interface ArtefactLockOptions {
  /** Lifetime of the key; renewed three times per lifetime. */
  ttlMs?: number;
  /** How long `run` waits for the current holder. */
  waitMs?: number;
}

export class ArtefactLock {
  readonly #redis: Redis;
  readonly #ttlMs: number;
  readonly #waitMs: number;

  constructor(redis: Redis, { ttlMs = 15_000, waitMs = 5_000 }: ArtefactLockOptions = {}) {
    this.#redis = redis;
    this.#ttlMs = ttlMs;
    this.#waitMs = waitMs;
  }

  /**
   * Runs `work` while holding the artefact.
   *
   * @param work receives a signal that is aborted as soon as the lock is in doubt;
   *   pass it on to queries and uploads, and call `signal.throwIfAborted()` before writes.
   * @throws {ArtefactBusyError} when the wait is over
   * @throws {ArtefactLockLostError} when the lock did not last as long as the work
   */
  async run<T>(artefactId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `museum:artefact:${artefactId}:lock`;
    const token = randomUUID();
    const lost = new AbortController();
    let finished = false;

    let validUntil = await this.#acquire(key, token);
    const lose = () => lost.abort(new ArtefactLockLostError(`lost ${artefactId}`));
    let watchdog = setTimeout(lose, validUntil - performance.now());

    const heartbeat = setInterval(async () => {
      const askedAt = performance.now();
      try {
        const kept = await this.#redis.eval(RENEW, 1, key, token, this.#ttlMs);
        if (finished) return;
        if (kept !== 1) return lose();
        validUntil = this.#validFrom(askedAt);
        clearTimeout(watchdog);
        watchdog = setTimeout(lose, validUntil - performance.now());
      } catch {
        // Redis did not answer: the next beat tries again, the watchdog has the last word.
      }
    }, this.#ttlMs / 3);

    try {
      const result = await work(lost.signal);
      if (performance.now() >= validUntil) lose();
      lost.signal.throwIfAborted();
      return result;
    } finally {
      finished = true;
      clearInterval(heartbeat);
      clearTimeout(watchdog);
      await this.#release(key, token);
    }
  }

  async #acquire(key: string, token: string): Promise<number> {
    const giveUpAt = performance.now() + this.#waitMs;
    for (;;) {
      const askedAt = performance.now();
      const reply = await this.#redis.set(key, token, 'PX', this.#ttlMs, 'NX');
      if (reply === 'OK') {
        const validUntil = this.#validFrom(askedAt);
        if (performance.now() < validUntil) return validUntil;
        await this.#release(key, token); // the answer took so long that little is left
      }
      if (performance.now() >= giveUpAt) throw new ArtefactBusyError(`${key} is in use`);
      await sleep(100 + Math.random() * 150);
    }
  }

  /** Counted from before the command was sent, less a tenth for slow timers. */
  #validFrom(askedAt: number): number {
    return askedAt + this.#ttlMs * 0.9;
  }

  async #release(key: string, token: string): Promise<void> {
    try {
      await this.#redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      console.warn(`could not release ${key}, it will expire`, err);
    }
  }
}
