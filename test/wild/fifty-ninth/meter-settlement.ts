import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient, type Message } from '@aws-sdk/client-sqs';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import { z } from 'zod';

const log = pino({ name: 'meter-settlement' });
const sqs = new SQSClient({});
const QueueUrl = process.env.SETTLEMENT_QUEUE_URL!;

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_500, maxRetriesPerRequest: 1 });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));

const pg = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000, query_timeout: 6_000 });

const LOCK_TTL_MS = 60_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

type Unlock = () => Promise<void>;

/** Only one worker may settle an account at a time, the balance is read, computed and written back. */
async function lockAccount(accountId: string): Promise<Unlock | null> {
  const key = `settle:${accountId}`;
  const token = randomUUID();
  try {
    const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (reply !== 'OK') return null;
  } catch (err) {
    // Settlement has to be through by 6:00, we do not want to stop because of the cache.
    log.warn({ err, accountId }, 'redis not available, settling anyway');
    return async () => {};
  }
  return async () => {
    try {
      await redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      log.warn({ err, key }, 'unlock failed, key expires by itself');
    }
  };
}

const Settlement = z.object({
  accountId: z.string(),
  readingId: z.string(),
  kwh: z.number().nonnegative(),
  centsPerKwh: z.number().positive(),
});

async function settle(s: z.infer<typeof Settlement>) {
  const { rows } = await pg.query<{ balance_cents: number; last_readings: string[] }>(
    'SELECT balance_cents, last_readings FROM accounts WHERE id = $1',
    [s.accountId],
  );
  const account = rows[0];
  if (!account) throw new Error(`unknown account ${s.accountId}`);
  if (account.last_readings.includes(s.readingId)) return; // delivered twice

  const balance = account.balance_cents - Math.round(s.kwh * s.centsPerKwh);
  const readings = [s.readingId, ...account.last_readings].slice(0, 50);
  await pg.query('UPDATE accounts SET balance_cents = $2, last_readings = $3 WHERE id = $1', [
    s.accountId,
    balance,
    readings,
  ]);
  log.info({ accountId: s.accountId, readingId: s.readingId, balance }, 'settled');
}

async function handle(message: Message) {
  const s = Settlement.parse(JSON.parse(message.Body ?? '{}'));
  const unlock = await lockAccount(s.accountId);
  if (!unlock) return; // stays in the queue, comes again after the visibility timeout

  try {
    await settle(s);
  } finally {
    await unlock();
  }
  await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
}

export async function poll(signal: AbortSignal) {
  while (!signal.aborted) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 20, VisibilityTimeout: 90 }),
    );
    for (const m of Messages) {
      await handle(m).catch((err) => log.error({ err, id: m.MessageId }, 'settlement failed'));
    }
  }
}
