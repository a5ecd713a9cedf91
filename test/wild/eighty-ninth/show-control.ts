/**
 * Control of the projector of a planetarium.
 *
 * The show computer, the presenter's tablet and the technician's laptop can all drive
 * the projector. `DomeLock` lets one of them do so and keeps the lock alive with a
 * heartbeat, as a show lasts much longer than the lifetime of a key.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

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

/** Somebody else is driving the projector. */
export class DomeBusyError extends Error {
  override name = 'DomeBusyError';
}

/** The lock could not be kept alive. */
export class DomeLockLostError extends Error {
  override name = 'DomeLockLostError';
}

interface Held {
  key: string;
  token: string;
  validUntil: number;
  timer: NodeJS.Timeout;
  lost: AbortController;
}

export class DomeLock {
  readonly #redis: Redis;
  readonly #ttlMs: number;

  constructor(redis: Redis, ttlMs = 30_000) {
    this.#redis = redis;
    this.#ttlMs = ttlMs;
  }

  /**
   * Runs a show on the dome.
   *
   * @param show is handed a signal that is aborted when the lock is lost; it has to
   *   stop sending commands to the projector then
   * @throws {DomeBusyError}
   * @throws {DomeLockLostError}
   */
  async withDome<T>(dome: string, show: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const held = await this.#acquire(`planetarium:${dome}:lock`);
    try {
      const result = await show(held.lost.signal);
      held.lost.signal.throwIfAborted();
      return result;
    } finally {
      await this.#release(held);
    }
  }

  async #acquire(key: string): Promise<Held> {
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await this.#redis.set(key, token, 'PX', this.#ttlMs, 'NX');
    if (reply !== 'OK') throw new DomeBusyError(`${key} is held`);

    const held: Held = {
      key,
      token,
      validUntil: askedAt + this.#ttlMs * 0.9,
      timer: setInterval(() => void this.#beat(held), this.#ttlMs / 10),
      lost: new AbortController(),
    };
    return held;
  }

  /** Extends the key, or declares the lock lost when that is no longer possible. */
  async #beat(held: Held): Promise<void> {
    const askedAt = performance.now();
    if (askedAt >= held.validUntil) {
      held.lost.abort(new DomeLockLostError(`${held.key}: no successful renewal in time`));
    }
    try {
      const kept = await this.#redis.eval(RENEW, 1, held.key, held.token, this.#ttlMs);
      if (kept === 1) {
        held.validUntil = askedAt + this.#ttlMs * 0.9;
      } else {
        clearInterval(held.timer);
        held.lost.abort(new DomeLockLostError(`${held.key}: taken over`));
      }
    } catch (err) {
      console.warn(`renewal of ${held.key} failed`, err);
    }
  }

  /** Gives the dome back and stops the heartbeat. */
  async #release(held: Held): Promise<void> {
    await this.#redis.eval(RELEASE, 1, held.key, held.token);
    clearInterval(held.timer);
  }
}

/** A client that reports a broken connection at once instead of queueing commands. */
export function connect(url = process.env.REDIS_URL ?? 'redis://dome-server:6379'): Redis {
  const redis = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 1,
    commandTimeout: 2_000,
  });
  redis.on('error', (err) => console.warn('redis:', err.message));
  return redis;
}
