import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import Redis from 'ioredis';
import type { Pool } from 'pg';
import Redlock, { ExecutionError, type RedlockAbortSignal } from 'redlock5';
import type { Logger } from '../logger';

const LOCK_MS = 60_000;
const STATEMENT_TIMEOUT_MS = 20_000;

export interface MigrateDeps {
  pool: Pool;
  redis: Redis;
  logger: Logger;
  directory: string;
}

export type MigrateResult =
  | { status: 'migrated'; applied: string[] }
  | { status: 'locked' };

async function pendingMigrations(deps: MigrateDeps, schema: string): Promise<string[]> {
  const files = (await readdir(deps.directory)).filter((file) => file.endsWith('.sql')).sort();
  const done = await deps.pool.query<{ version: string }>(
    'SELECT version FROM tenant_migrations WHERE tenant_schema = $1',
    [schema],
  );
  const seen = new Set(done.rows.map((row) => row.version));
  return files.filter((file) => !seen.has(file));
}

function throwIfLost(signal: RedlockAbortSignal): void {
  if (signal.aborted) {
    throw signal.error ?? new Error('migration lock was lost');
  }
}

async function applyOne(
  deps: MigrateDeps,
  schema: string,
  file: string,
  signal: RedlockAbortSignal,
): Promise<void> {
  const sql = await readFile(path.join(deps.directory, file), 'utf8');
  const conn = await deps.pool.connect();
  try {
    await conn.query('BEGIN');
    await conn.query(`SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
    await conn.query(`SELECT set_config('search_path', $1, true)`, [schema]);
    // (tenant_schema, version) is the primary key.
    await conn.query(
      'INSERT INTO public.tenant_migrations (tenant_schema, version) VALUES ($1, $2)',
      [schema, file],
    );
    await conn.query(sql);
    throwIfLost(signal);
    await conn.query('COMMIT');
  } catch (err) {
    await conn.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    conn.release();
  }
}

export function createTenantMigrator(deps: MigrateDeps) {
  const redlock = new Redlock([deps.redis], {
    retryCount: 3,
    retryDelay: 200,
    retryJitter: 100,
    automaticExtensionThreshold: 20_000,
  });
  redlock.on('error', (err) => deps.logger.debug({ err }, 'redlock attempt failed'));

  return async function migrateTenant(tenant: string): Promise<MigrateResult> {
    const schema = `tenant_${tenant}`;
    let entered = false;

    try {
      return await redlock.using(
        [`locks:tenant-migrate:${schema}`],
        LOCK_MS,
        async (signal): Promise<MigrateResult> => {
          entered = true;
          const applied: string[] = [];
          for (const file of await pendingMigrations(deps, schema)) {
            throwIfLost(signal);
            await applyOne(deps, schema, file, signal);
            applied.push(file);
            deps.logger.info({ schema, file }, 'migration applied');
          }
          return { status: 'migrated', applied };
        },
      );
    } catch (err) {
      if (!entered && err instanceof ExecutionError) {
        deps.logger.info({ schema }, 'another deploy is migrating this tenant');
        return { status: 'locked' };
      }
      throw err;
    }
  };
}
