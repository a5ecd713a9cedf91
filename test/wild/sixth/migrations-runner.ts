import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const KEY = 'migrations:lock';
const TTL = 10 * 60 * 1000;
// for what is around a migration: the history, the network
const MARGIN = 15_000;

export interface Migration {
  id: string;
  /** How long it may take; it is stopped by the statement timeout of the database after that. */
  maxMs: number;
  up(options: { statementTimeoutMs: number }): Promise<void>;
}

interface MigrationLock {
  token: string;
  deadline: number;
}

async function acquire(redis: Redis, timeout: number): Promise<MigrationLock> {
  const token = randomUUID();
  const giveUpAt = performance.now() + timeout;
  while (true) {
    const deadline = performance.now() + TTL;
    const ok = await redis.set(KEY, token, 'PX', TTL, 'NX');
    if (ok) return { token, deadline };
    if (performance.now() > giveUpAt) throw new Error('another instance is still migrating');
    await sleep(1000);
  }
}

// No scripts on this server (a proxy does not let EVAL through), hence WATCH. It gets its own
// connection because WATCH belongs to a connection.
async function release(redis: Redis, lock: MigrationLock): Promise<boolean> {
  const conn = redis.duplicate();
  try {
    await conn.watch(KEY);
    if ((await conn.get(KEY)) !== lock.token) {
      await conn.unwatch();
      return false;
    }
    // null when the key has changed since WATCH
    const result = await conn.multi().del(KEY).exec();
    return result !== null;
  } finally {
    conn.disconnect();
  }
}

/**
 * Called by every pod at start; the first one migrates, the others wait and find nothing to do.
 */
export async function migrate(
  redis: Redis,
  migrations: Migration[],
  history: { done(): Promise<Set<string>>; add(id: string): Promise<void> },
): Promise<string[]> {
  const lock = await acquire(redis, 2 * TTL);
  const applied: string[] = [];
  try {
    const done = await history.done();
    for (const migration of migrations) {
      if (done.has(migration.id)) continue;
      if (performance.now() + migration.maxMs + MARGIN >= lock.deadline) {
        throw new Error(`no time left for ${migration.id}, start again to go on`);
      }
      await migration.up({ statementTimeoutMs: migration.maxMs });
      await history.add(migration.id);
      applied.push(migration.id);
    }
    return applied;
  } finally {
    await release(redis, lock).catch((err) => console.warn('migration lock is left to expire', err));
  }
}
