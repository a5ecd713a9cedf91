import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

/**
 * What one call chain holds. It is handed to the callback, and a nested call
 * that passes it on enters again without asking Redis.
 */
export class Holding {
  readonly name: string;
  readonly token: string;
  readonly until: number;
  depth = 1;

  constructor(name: string, token: string, until: number) {
    this.name = name;
    this.token = token;
    this.until = until;
  }

  check(): void {
    if (this.depth < 1) throw new Error(`${this.name}: used after the lock was given back`);
    if (performance.now() >= this.until) throw new Error(`${this.name}: the lock has expired`);
  }
}

export class NestedLock {
  private readonly redis: Redis;
  private readonly ttlMs: number;

  constructor(redis: Redis, ttlMs = 20_000) {
    this.redis = redis;
    this.ttlMs = ttlMs;
  }

  async run<T>(name: string, fn: (held: Holding) => Promise<T>, outer?: Holding): Promise<T> {
    if (outer && outer.name === name) {
      outer.check();
      outer.depth++;
      try {
        return await fn(outer);
      } finally {
        outer.depth--;
      }
    }

    const key = `nested:${name}`;
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    if (reply === null) throw new Error(`${name} is locked`);

    const held = new Holding(name, token, sentAt + this.ttlMs - this.ttlMs / 20);
    try {
      held.check();
      return await fn(held);
    } finally {
      held.depth = 0;
      await this.redis.eval(UNLOCK, 1, key, token);
    }
  }
}

export class TenantSettings {
  private readonly locks: NestedLock;
  private readonly store: Map<string, Record<string, unknown>>;

  constructor(locks: NestedLock, store = new Map<string, Record<string, unknown>>()) {
    this.locks = locks;
    this.store = store;
  }

  patch(tenant: string, change: Record<string, unknown>, outer?: Holding) {
    return this.locks.run(
      `tenant:${tenant}`,
      async (held) => {
        held.check();
        const next = { ...this.store.get(tenant), ...change };
        this.store.set(tenant, next);
        return next;
      },
      outer,
    );
  }

  rename(tenant: string, name: string) {
    return this.locks.run(`tenant:${tenant}`, async (held) => {
      await this.patch(tenant, { name }, held);
      return this.patch(tenant, { renamedAt: new Date().toISOString() }, held);
    });
  }
}
