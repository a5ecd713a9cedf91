import 'dotenv/config';
import knexFactory from 'knex';
import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import pino from 'pino';

const log = pino({ name: 'migrate' });

const databaseUrl = process.env.DATABASE_URL;
const redisUrl = process.env.REDIS_URL;
if (!databaseUrl || !redisUrl) {
  log.fatal('DATABASE_URL and REDIS_URL are required');
  process.exit(64);
}

const knex = knexFactory({
  client: 'pg',
  connection: databaseUrl,
  pool: { min: 0, max: 1 },
  migrations: { directory: './migrations', loadExtensions: ['.mjs'] },
});

const redis = new Redis(redisUrl, { maxRetriesPerRequest: 3 });

// One mutex for each database, since staging and preview share a Redis.
const dbName = new URL(databaseUrl).pathname.slice(1);

const mutex = new Mutex(redis, `migrations:${dbName}`, {
  lockTimeout: 30_000,
  refreshInterval: 8_000,
  acquireTimeout: 10 * 60_000,
  retryInterval: 1_000,
  onLockLost: (err) => {
    // The session dies with the process and Postgres rolls the open migration back.
    log.fatal({ err }, 'migration lock lost, exiting');
    process.exit(75);
  },
});

let exitCode = 0;
try {
  log.info({ dbName }, 'waiting for migration lock');
  await mutex.acquire();
  try {
    const [, pending] = (await knex.migrate.list()) as [unknown[], Array<{ file: string }>];
    if (pending.length === 0) {
      log.info('schema is up to date');
    } else {
      log.info({ pending: pending.map((p) => p.file) }, 'applying');
      const [batch, applied] = (await knex.migrate.latest()) as [number, string[]];
      log.info({ batch, applied }, 'applied');
    }
  } finally {
    await mutex.release();
  }
} catch (err) {
  log.error({ err }, 'migration failed');
  exitCode = 1;
} finally {
  await knex.destroy();
  redis.disconnect();
}

process.exit(exitCode);
