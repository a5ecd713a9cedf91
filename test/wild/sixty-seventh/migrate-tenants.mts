import { Redis } from 'ioredis';
import pg from 'pg';
import Redlock, { ResourceLockedError, ExecutionError, type RedlockAbortSignal } from 'redlock5';
import { migrations } from './migrations/index.mjs';

// REDIS_NODES="redis://lock-a:6379,redis://lock-b:6379,redis://lock-c:6379"
const clients = (process.env.REDIS_NODES ?? '').split(',').map((url) => new Redis(url));

const redlock = new Redlock(clients, {
  driftFactor: 0.01,
  retryCount: 0,
  automaticExtensionThreshold: 5_000,
});

redlock.on('error', (error) => {
  if (error instanceof ResourceLockedError) return;
  console.error('redlock:', error);
});

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

/** Applies one step in one transaction, and only on top of the version it expects. */
async function step(tenant: string, from: number, sql: string) {
  const conn = await pool.connect();
  try {
    await conn.query('begin');
    // The row lock orders us against a runner that lost its lock without knowing.
    const { rows } = await conn.query('select version from tenants where id = $1 for update', [tenant]);
    if (rows[0]?.version !== from) throw new Error(`${tenant}: expected version ${from}, found ${rows[0]?.version}`);
    await conn.query(`set local search_path to ${pg.escapeIdentifier(tenant)}`);
    await conn.query(sql);
    await conn.query('update public.tenants set version = $2 where id = $1', [tenant, from + 1]);
    await conn.query('commit');
  } catch (err) {
    await conn.query('rollback').catch(() => undefined);
    throw err;
  } finally {
    conn.release();
  }
}

async function migrate(tenant: string, signal: RedlockAbortSignal) {
  const { rows } = await pool.query<{ version: number }>('select version from tenants where id = $1', [tenant]);
  if (rows.length === 0) throw new Error(`no tenant ${tenant}`);
  for (let version = rows[0].version; version < migrations.length; version++) {
    if (signal.aborted) throw signal.error;
    await step(tenant, version, migrations[version]);
    console.log(`${tenant}: ${version} -> ${version + 1}`);
  }
}

const { rows: tenants } = await pool.query<{ id: string }>('select id from tenants order by id');
let failed = 0;
let skipped = 0;

for (const { id } of tenants) {
  let started = false;
  try {
    await redlock.using([`migrate:${id}`], 20_000, (signal) => {
      started = true;
      return migrate(id, signal);
    });
  } catch (err) {
    if (err instanceof ExecutionError && !started) {
      skipped++;
      console.log(`${id}: another runner is busy with it (or no quorum), skipping`);
    } else {
      failed++;
      console.error(`${id}:`, err);
    }
  }
}

await pool.end();
await Promise.all(clients.map((c) => c.quit().catch(() => undefined)));
// 75 = EX_TEMPFAIL, the deploy job runs us again.
process.exitCode = failed ? 1 : skipped ? 75 : 0;
