import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

/**
 * Daily accrual of interest on savings accounts. All four app servers have the timer,
 * because any of them may be down for a deploy at midnight; the guard sees to it that the
 * accrual is run by a single server each night.
 */

const GUARD_TTL_MS = 10 * 60_000;
const STATEMENT_TIMEOUT_MS = 90_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export interface SqlPool {
  /** Cancels the statement on the database server when the timeout is reached. */
  execute(sql: string, params: unknown[], opts: { timeoutMs: number }): Promise<{ affected: number }>;
}

type Client = ReturnType<typeof createClient>;

export async function connectRedis(): Promise<Client> {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
  client.on('error', (err) => console.error('[cron] redis', err));
  await client.connect();
  return client;
}

export async function onOneServer(
  client: Client,
  jobName: string,
  job: () => Promise<void>,
): Promise<'ran' | 'skipped'> {
  const key = `cron:${jobName}`;
  const token = randomUUID();

  const reply = await client.set(key, token, { NX: true, PX: GUARD_TTL_MS });
  if (reply !== 'OK') {
    console.info(`[cron] ${jobName}: another server has it`);
    return 'skipped';
  }

  const startedAt = Date.now();
  try {
    await job();
    console.info(`[cron] ${jobName}: done in ${Date.now() - startedAt}ms`);
    return 'ran';
  } finally {
    try {
      await client.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn(`[cron] ${jobName}: guard not released, expires by itself`, err);
    }
  }
}

export async function accrueInterest(client: Client, pool: SqlPool): Promise<'ran' | 'skipped'> {
  return onOneServer(client, 'accrue-interest', async () => {
    const { affected } = await pool.execute(
      `UPDATE savings_accounts
          SET accrued_micros = accrued_micros + balance_micros * rate_bps / 10000 / 365
        WHERE closed_at IS NULL`,
      [],
      { timeoutMs: STATEMENT_TIMEOUT_MS },
    );
    console.info(`[cron] interest accrued on ${affected} accounts`);
  });
}

function msUntilMidnightUtc(now = new Date()): number {
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1) - now.getTime();
}

/** Arms the nightly timer; returns a function that disarms it. */
export function scheduleAccrual(client: Client, pool: SqlPool): () => void {
  let timer: NodeJS.Timeout;
  const arm = () => {
    timer = setTimeout(async () => {
      try {
        await accrueInterest(client, pool);
      } catch (err) {
        console.error('[cron] accrue-interest failed', err);
      }
      arm();
    }, msUntilMidnightUtc());
  };
  arm();
  return () => clearTimeout(timer);
}
