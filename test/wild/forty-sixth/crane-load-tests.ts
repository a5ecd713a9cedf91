import { randomUUID } from 'node:crypto';
import {
  SQSClient,
  ReceiveMessageCommand,
  DeleteMessageCommand,
  type Message,
} from '@aws-sdk/client-sqs';
import Redis from 'ioredis';
import { Pool } from 'pg';
import { z } from 'zod';
import { logger } from './logger';

const sqs = new SQSClient({ region: 'eu-north-1' });
const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 4_000, connectionTimeoutMillis: 4_000 });
const QUEUE = process.env.LOAD_TEST_QUEUE_URL!;

const LOCK_MS = 45_000;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const LoadTest = z.object({
  testId: z.string().uuid(),
  craneId: z.string(),
  loadTonnes: z.number().positive(),
  deflectionMm: z.number().nonnegative(),
});

async function withCraneLock(craneId: string, fn: () => Promise<void>): Promise<void> {
  const key = `crane:${craneId}:certificate`;
  const token = randomUUID();
  const ok = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
  if (ok !== 'OK') {
    logger.info({ craneId }, 'crane is being processed by another worker');
    return;
  }
  try {
    await fn();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err) => logger.warn({ err, key }, 'release failed'));
  }
}

async function applyTest(test: z.infer<typeof LoadTest>): Promise<void> {
  const { rows } = await pool.query(
    'SELECT rated_tonnes, max_deflection_mm, certificate_version FROM cranes WHERE id = $1',
    [test.craneId],
  );
  const crane = rows[0];
  if (!crane) throw new Error(`unknown crane ${test.craneId}`);
  const passed =
    test.loadTonnes >= crane.rated_tonnes * 1.25 && test.deflectionMm <= crane.max_deflection_mm;
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const fresh = await client.query(
      `INSERT INTO load_tests (id, crane_id, load_tonnes, deflection_mm, passed)
       VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING`,
      [test.testId, test.craneId, test.loadTonnes, test.deflectionMm, passed],
    );
    if (fresh.rowCount === 1) {
      const res = await client.query(
        `UPDATE cranes SET certified = $1, certificate_version = certificate_version + 1
          WHERE id = $2 AND certificate_version = $3`,
        [passed, test.craneId, crane.certificate_version],
      );
      if (res.rowCount !== 1) throw new Error('certificate changed meanwhile');
    }
    await client.query('COMMIT');
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}

async function handle(msg: Message): Promise<void> {
  const test = LoadTest.parse(JSON.parse(msg.Body ?? '{}'));
  await withCraneLock(test.craneId, () => applyTest(test));
  await sqs.send(new DeleteMessageCommand({ QueueUrl: QUEUE, ReceiptHandle: msg.ReceiptHandle! }));
}

async function main() {
  for (;;) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: QUEUE,
        MaxNumberOfMessages: 5,
        WaitTimeSeconds: 20,
        VisibilityTimeout: 120,
      }),
    );
    // Whatever throws becomes visible again, after five times it goes to the dead letter queue.
    const results = await Promise.allSettled(Messages.map(handle));
    for (const r of results) if (r.status === 'rejected') logger.error({ err: r.reason }, 'load test');
  }
}

main().catch((err) => {
  logger.fatal(err);
  process.exit(1);
});
