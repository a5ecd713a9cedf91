#!/usr/bin/env node
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

export interface TenantDb {
  currentVersion(): Promise<number>;
  // Runs the sql and `update schema_version set v = $to where v = $from` in one
  // transaction; rolls back and throws when no row matched or the signal fires.
  migrate(step: { from: number; to: number; sql: string }, opts: { signal: AbortSignal }): Promise<void>;
}

const LOCK_MS = 60_000;

function connect(): Redis {
  const redis = new Redis({
    host: process.env.REDIS_HOST ?? '127.0.0.1',
    port: Number(process.env.REDIS_PORT ?? 6379),
    maxRetriesPerRequest: 2,
    commandTimeout: 2_000,
  });
  redis.on('error', (err) => console.error(`redis: ${err.message}`));
  return redis;
}

async function loadSteps(dir: string): Promise<{ version: number; sql: string }[]> {
  const names = (await readdir(dir)).filter((n) => /^\d+_.*\.sql$/.test(n));
  const steps = await Promise.all(
    names.map(async (n) => ({ version: Number.parseInt(n, 10), sql: await readFile(join(dir, n), 'utf8') })),
  );
  return steps.sort((a, b) => a.version - b.version);
}

/** Returns the number of steps applied, or null if somebody else is at it. */
export async function migrateTenant(redlock: Redlock, db: TenantDb, tenant: string, dir: string): Promise<number | null> {
  const steps = await loadSteps(dir);
  let started = false;
  let applied: number | undefined;

  try {
    await redlock.using([`migrate:${tenant}`], LOCK_MS, { retryCount: 0 }, async (signal) => {
      started = true;
      let version = await db.currentVersion();
      let count = 0;
      for (const step of steps) {
        if (step.version <= version) continue;
        if (signal.aborted) throw signal.error ?? new Error(`lost the lock on ${tenant}`);
        await db.migrate({ from: version, to: step.version, sql: step.sql }, { signal: signal as unknown as AbortSignal });
        version = step.version;
        count++;
        console.log(`${tenant}: now at ${version}`);
      }
      applied = count;
    });
  } catch (err) {
    if (applied !== undefined) {
      // everything is in, only giving the lock back failed
      console.warn(`${tenant}: unlock failed, it runs out in ${LOCK_MS / 1000}s`, err);
      return applied;
    }
    if (!started && err instanceof ExecutionError) return null;
    throw err;
  }
  return applied ?? 0;
}

export async function main(openDb: (tenant: string) => Promise<TenantDb>, argv: string[]): Promise<number> {
  const [dir, ...tenants] = argv;
  if (!dir || tenants.length === 0) {
    console.error('usage: tenant-migrator <dir> <tenant>...');
    return 64;
  }
  const redis = connect();
  const redlock = new Redlock([redis], { retryCount: 1, retryDelay: 500, retryJitter: 200, automaticExtensionThreshold: 25_000 });
  redlock.on('error', (err) => {
    if (!(err instanceof ResourceLockedError)) console.error('redlock:', err);
  });

  let skipped = 0;
  try {
    for (const tenant of tenants) {
      const n = await migrateTenant(redlock, await openDb(tenant), tenant, dir);
      if (n === null) {
        skipped++;
        console.warn(`${tenant}: locked or redis not available, skipped`);
      }
    }
  } finally {
    redis.disconnect();
  }
  return skipped > 0 ? 75 : 0;
}
