import { createHash, randomUUID } from 'node:crypto';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { Pool } from 'pg';
import { createClient } from 'redis';

// template.yaml: function timeout 30 s, visibility timeout 180 s, retention 4 days.
// A claim outlives every invocation and is gone before the message is delivered again.
const CLAIM_MS = 90_000;
const DONE_SECONDS = 7 * 24 * 3600;

const FINISH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const ABANDON = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
const connected = redis.connect();
connected.catch(() => {}); // reported by the handler
const db = new Pool({ max: 2 });

async function run(script: string, key: string, ...args: string[]): Promise<unknown> {
  const options = { keys: [key], arguments: args };
  try {
    return await redis.evalSha(createHash('sha1').update(script).digest('hex'), options);
  } catch (err) {
    if (!(err instanceof Error) || !err.message.startsWith('NOSCRIPT')) throw err;
    return redis.eval(script, options);
  }
}

async function abandon(key: string, token: string): Promise<void> {
  await run(ABANDON, key, token).catch((err) => console.warn(`claim ${key} is left to expire`, err));
}

async function processOnce(record: SQSRecord): Promise<void> {
  const order = JSON.parse(record.body) as { orderId: string; totalCents: number };
  const key = `invoice:${order.orderId}`;
  const token = randomUUID();

  try {
    const claimed = await redis.set(key, token, { NX: true, PX: CLAIM_MS });
    if (claimed !== 'OK') {
      if ((await redis.get(key)) === 'done') return;
      throw new Error(`${order.orderId} is being processed elsewhere`);
    }
    // order_id is the primary key: should two runs ever overlap, the second changes nothing.
    await db.query(
      'insert into invoices (order_id, total_cents) values ($1, $2) on conflict (order_id) do nothing',
      [order.orderId, order.totalCents],
    );
  } catch (err) {
    await abandon(key, token);
    throw err;
  }

  // The invoice exists from here on. If this fails the message comes back and the insert is a no-op.
  const finished = await run(FINISH, key, token, String(DONE_SECONDS));
  if (finished !== 1) console.warn(`claim on ${key} had lapsed`);
}

export async function handler(event: SQSEvent): Promise<SQSBatchResponse> {
  await connected;
  const batchItemFailures: SQSBatchResponse['batchItemFailures'] = [];
  for (const record of event.Records) {
    try {
      await processOnce(record);
    } catch (err) {
      console.error(`message ${record.messageId} failed`, err);
      batchItemFailures.push({ itemIdentifier: record.messageId });
    }
  }
  return { batchItemFailures };
}
