import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

/** Nightly accrual of savings interest. Started by cron on both batch hosts; one of them does the work. */

export interface Ledger {
  /** accounts without an accrual row for the date, ordered by id */
  findNotAccrued(businessDate: string, limit: number): Promise<{ id: string; balanceCents: bigint; rateBps: number }[]>;
  /** writes the rows and the balance bookings in one transaction; statement_timeout is 30 s */
  postAccruals(businessDate: string, rows: { accountId: string; amountCents: bigint }[]): Promise<void>;
}

export interface JobLogger {
  info(message: string): void;
  error(message: string, err?: unknown): void;
}

const LOCK_KEY = 'batch:interest-accrual';
const BATCH = 500;

const EXTEND = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

function readTtlMs(env: NodeJS.ProcessEnv): number {
  const seconds = Number(env.INTEREST_LOCK_SECONDS ?? '180');
  if (!Number.isInteger(seconds) || seconds < 120) {
    throw new Error('INTEREST_LOCK_SECONDS must be a whole number of at least 120');
  }
  return seconds * 1000;
}

export async function accrueInterest(
  businessDate: string,
  ledger: Ledger,
  logger: JobLogger,
  env: NodeJS.ProcessEnv = process.env,
): Promise<number> {
  const ttlMs = readTtlMs(env);
  const client = createClient({ url: env.REDIS_URL });
  client.on('error', (err) => logger.error('redis', err));
  await client.connect();

  const me = randomUUID();
  let posted = 0;
  try {
    const reply = await client.set(LOCK_KEY, me, { NX: true, PX: ttlMs });
    if (reply === null) {
      logger.info(`accrual ${businessDate}: other host is on it`);
      return 0;
    }

    try {
      for (;;) {
        const extended = await client.eval(EXTEND, { keys: [LOCK_KEY], arguments: [me, String(ttlMs)] });
        if (extended !== 1) throw new Error(`accrual ${businessDate}: lock lost after ${posted} accounts`);

        const accounts = await ledger.findNotAccrued(businessDate, BATCH);
        if (accounts.length === 0) break;

        await ledger.postAccruals(
          businessDate,
          accounts.map((a) => ({
            accountId: a.id,
            amountCents: (a.balanceCents * BigInt(a.rateBps)) / 10_000n / 365n,
          })),
        );
        posted += accounts.length;
      }
      logger.info(`accrual ${businessDate}: ${posted} accounts`);
      return posted;
    } finally {
      await client
        .eval(DROP, { keys: [LOCK_KEY], arguments: [me] })
        .catch((err) => logger.error('could not drop accrual lock', err));
    }
  } finally {
    await client.quit().catch(() => undefined);
  }
}
