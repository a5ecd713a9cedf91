import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

// Every pod migrates the schema of a tenant on the first request it sees after
// a deploy. Migrations of the same tenant exclude each other.

const TTL_MS = 30_000;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;

export class MigrationRunning extends Error {
  constructor(tenant: string) {
    super(`tenant ${tenant} is being migrated`);
  }
}

export function createTenantLock(redis: Redis) {
  return async function withTenantLock<T>(tenant: string, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `migrate:${tenant}`;
    const token = randomUUID();
    const sentAt = performance.now();
    if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') throw new MigrationRunning(tenant);

    const lost = new AbortController();
    let expiry: NodeJS.Timeout | undefined;
    const arm = (from: number) => {
      clearTimeout(expiry);
      expiry = setTimeout(
        () => lost.abort(new Error(`${key} ran out`)),
        Math.max(0, from + TTL_MS - 2_000 - performance.now()),
      );
    };
    let active = true;
    arm(sentAt);
    const beat = setInterval(async () => {
      const at = performance.now();
      const kept = await redis.eval(EXTEND, 1, key, token, TTL_MS).catch(() => null);
      if (!active || lost.signal.aborted || kept === null) return;
      if (kept === 1) arm(at);
      else lost.abort(new Error(`${key} was lost`));
    }, TTL_MS / 3);

    try {
      return task(lost.signal);
    } finally {
      active = false;
      clearInterval(beat);
      clearTimeout(expiry);
      await redis.eval(RELEASE, 1, key, token).catch(() => undefined);
    }
  };
}

export interface Migrations {
  pending(tenant: string): Promise<string[]>;
  apply(tenant: string, migration: string, signal: AbortSignal): Promise<void>;
}

export async function migrateTenant(redis: Redis, migrations: Migrations, tenant: string): Promise<number> {
  const withTenantLock = createTenantLock(redis);
  return withTenantLock(tenant, async (signal) => {
    const pending = await migrations.pending(tenant);
    for (const migration of pending) {
      signal.throwIfAborted();
      await migrations.apply(tenant, migration, signal);
    }
    return pending.length;
  });
}
