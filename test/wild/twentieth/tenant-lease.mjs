import { randomUUID } from 'node:crypto';
import { Redis } from 'iovalkey';

const valkey = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 2,
  lazyConnect: true,
});

// compare-and-delete / compare-and-expire, registered once as commands
valkey.defineCommand('leaseDrop', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
});
valkey.defineCommand('leaseProlong', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
});

export class LeaseLost extends Error {}

/** Disposable handle: `await using lease = await acquireLease('tenant-7', 20_000)`. */
class Lease {
  #key;
  #token;
  #validUntil;
  #closed = false;

  constructor(key, token, validUntil) {
    this.#key = key;
    this.#token = token;
    this.#validUntil = validUntil;
  }

  /** Milliseconds in which we may still rely on the lease (0 once it is over). */
  get remaining() {
    return this.#closed ? 0 : Math.max(0, this.#validUntil - performance.now());
  }

  /** To be called before every step of a migration. */
  assertHeld(neededMs = 0) {
    if (this.remaining <= neededMs) throw new LeaseLost(`${this.#key}: lease is over`);
  }

  /** Prolongs only what is still ours; a lease that ran out stays lost. */
  async extend(ttl) {
    this.assertHeld();
    const asked = performance.now();
    const ok = await valkey.leaseProlong(this.#key, this.#token, ttl);
    if (ok !== 1) {
      this.#validUntil = 0;
      throw new LeaseLost(`${this.#key}: somebody else owns it now`);
    }
    this.#validUntil = asked + ttl - margin(ttl);
    this.assertHeld();
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await valkey.leaseDrop(this.#key, this.#token).catch(() => {}); // the TTL is the fallback
  }
}

const margin = (ttl) => Math.ceil(ttl * 0.01) + 2;

/** Resolves to a lease, or to null when the tenant is taken. */
export async function acquireLease(tenant, ttl) {
  const key = `tenant-migration:${tenant}`;
  const token = randomUUID();
  const asked = performance.now();
  let lease = null;
  try {
    if ((await valkey.set(key, token, 'PX', ttl, 'NX')) === 'OK') {
      lease = new Lease(key, token, asked + ttl - margin(ttl));
    }
  } finally {
    // no answer, a lost answer or too slow an answer: take our token back
    if (!lease || lease.remaining === 0) {
      await valkey.leaseDrop(key, token).catch(() => {});
      lease = null;
    }
  }
  return lease;
}

/**
 * Applies the steps in order. `stepMs` is the hard limit of one step (enforced
 * by its AbortSignal), and no step starts unless the lease outlasts it.
 */
export async function migrateTenant(tenant, steps, { ttl = 30_000, stepMs = 10_000 } = {}) {
  const lease = await acquireLease(tenant, ttl);
  if (!lease) return { tenant, done: 0, skipped: true };
  let done = 0;
  try {
    for (const step of steps) {
      if (lease.remaining < stepMs * 2) await lease.extend(ttl);
      lease.assertHeld(stepMs);
      await step(tenant, AbortSignal.timeout(stepMs));
      done++;
    }
    return { tenant, done, skipped: false };
  } finally {
    await lease.close();
  }
}
