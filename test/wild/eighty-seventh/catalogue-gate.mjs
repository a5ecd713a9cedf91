/**
 * Shared and exclusive access to the archive catalogue.
 *
 * Exports, previews and statistics read and may run side by side; a re-index
 * rewrites the catalogue in place and wants it for itself.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const ENTER_SHARED = `
if redis.call('exists', KEYS[1]) == 1 then return 0 end
local readers = redis.call('incr', KEYS[2])
if readers == 1 then redis.call('pexpire', KEYS[2], ARGV[1]) end
return 1`;

const LEAVE_SHARED = `
if redis.call('exists', KEYS[2]) == 0 then return 0 end
local readers = redis.call('decr', KEYS[2])
if readers <= 0 then redis.call('del', KEYS[2]) end
return readers`;

const ENTER_EXCLUSIVE = `
if redis.call('exists', KEYS[2]) == 1 then return 0 end
if redis.call('set', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[1]) then return 1 end
return 0`;

const LEAVE_EXCLUSIVE = `
if redis.call('get', KEYS[1]) ~= ARGV[2] then return 0 end
return redis.call('del', KEYS[1])`;

export class GateClosedError extends Error {
  name = 'GateClosedError';
}

/** A signal that fires ahead of the end of the ttl that began at `sentAt`. */
function signalFor(sentAt, ttlMs) {
  const left = sentAt + ttlMs * 0.9 - performance.now();
  return left > 0 ? AbortSignal.timeout(Math.floor(left)) : AbortSignal.abort();
}

export class CatalogueGate {
  #redis;
  #keys;
  #ttlMs;
  #waitMs;

  /**
   * @param {import('redis').RedisClientType} redis a connected client
   * @param {string} catalogue
   * @param {{ ttlMs?: number, waitMs?: number }} [options] ttlMs bounds one visit, shared or exclusive
   */
  constructor(redis, catalogue, { ttlMs = 20_000, waitMs = 60_000 } = {}) {
    this.#redis = redis;
    this.#keys = [`gate:{${catalogue}}:writer`, `gate:{${catalogue}}:readers`];
    this.#ttlMs = ttlMs;
    this.#waitMs = waitMs;
  }

  /**
   * Runs `read` while no writer is inside.
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} read
   * @returns {Promise<T>}
   */
  shared(read) {
    return this.#visit(ENTER_SHARED, LEAVE_SHARED, read);
  }

  /**
   * Runs `write` while nobody else is inside.
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} write
   * @returns {Promise<T>}
   */
  exclusive(write) {
    return this.#visit(ENTER_EXCLUSIVE, LEAVE_EXCLUSIVE, write);
  }

  async #visit(enter, leave, work) {
    const token = randomUUID();
    const call = (script) =>
      this.#redis.eval(script, { keys: this.#keys, arguments: [String(this.#ttlMs), token] });

    const sentAt = await this.#enter(() => call(enter));
    const signal = signalFor(sentAt, this.#ttlMs);
    try {
      signal.throwIfAborted();
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await call(leave).catch(() => {});
    }
  }

  /** Tries until it is let in; resolves to the instant at which that request was sent. */
  async #enter(attempt) {
    const giveUpAt = performance.now() + this.#waitMs;
    for (;;) {
      const sentAt = performance.now();
      if ((await attempt()) === 1) return sentAt;
      if (performance.now() >= giveUpAt) throw new GateClosedError(this.#keys[0]);
      await sleep(80 + Math.random() * 120);
    }
  }
}
