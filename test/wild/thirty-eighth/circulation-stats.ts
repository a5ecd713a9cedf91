import { hostname } from 'node:os';
import cron from 'node-cron';
import { Pool } from 'pg';
import { createClient } from 'redis';

const VIEWS = ['loans_by_branch', 'holds_by_title'] as const;

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis', err));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  max: 2,
  connectionTimeoutMillis: 10_000,
  // Two views have to fit into the hour.
  statement_timeout: 20 * 60_000,
});

function slotOf(date: Date): string {
  return date.toISOString().slice(0, 13); // 2025-03-01T14
}

/** The first of our instances to ask for an hour has it, and has it for good. */
async function claim(slot: string): Promise<boolean> {
  const reply = await redis.set(`stats:slot:${slot}`, hostname(), { NX: true, EX: 6 * 3600 });
  return reply === 'OK';
}

async function refreshViews(): Promise<void> {
  for (const view of VIEWS) {
    const t0 = Date.now();
    await pool.query(`REFRESH MATERIALIZED VIEW CONCURRENTLY ${view}`);
    console.info('%s refreshed in %d ms', view, Date.now() - t0);
  }
}

// Seven past, so that the clocks of our hosts never disagree about which hour it is.
// A slot that fails is not retried: a refresh is a full rebuild, the next hour makes it good.
const task = cron.schedule(
  '7 * * * *',
  async () => {
    const slot = slotOf(new Date());
    try {
      if (!(await claim(slot))) return;
      await refreshViews();
    } catch (err) {
      console.error('stats of %s failed', slot, err);
    }
  },
  { timezone: 'UTC' },
);

async function main(): Promise<void> {
  await redis.connect();
  process.once('SIGTERM', async () => {
    await task.stop();
    await pool.end();
    await redis.quit();
  });
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
