import { randomUUID } from 'node:crypto';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 1_500 });

// Standard queue, so the same fine shows up more than once now and then.
// A claim outlives the invocation (Lambda kills us at its timeout), "done" is
// remembered for as long as SQS can keep a message.
const DONE_SECONDS = 14 * 24 * 3600;
const CLAIM_GRACE_MS = 15_000;
const LETTER_MS = 10_000;

const MARK_DONE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const DROP_CLAIM = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Fine {
  fineId: string;
  plate: string;
  address: string;
  cents: number;
}

type Claim = { state: 'ours'; token: string } | { state: 'done' } | { state: 'busy' };

async function claim(key: string, context: Context): Promise<Claim> {
  const token = randomUUID();
  const ttl = context.getRemainingTimeInMillis() + CLAIM_GRACE_MS;
  if ((await redis.set(key, token, 'PX', ttl, 'NX')) === 'OK') return { state: 'ours', token };
  return (await redis.get(key)) === 'done' ? { state: 'done' } : { state: 'busy' };
}

async function orderLetter(fine: Fine): Promise<void> {
  const res = await fetch(`${process.env.PRINT_URL}/letters`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': fine.fineId },
    body: JSON.stringify({ template: 'fine-v4', to: fine.address, plate: fine.plate, cents: fine.cents }),
    signal: AbortSignal.timeout(LETTER_MS),
  });
  if (!res.ok) throw new Error(`print shop ${res.status} for ${fine.fineId}`);
}

async function handle(record: SQSRecord, context: Context): Promise<void> {
  const fine = JSON.parse(record.body) as Fine;
  const key = `fine-letter:${fine.fineId}`;
  const claimed = await claim(key, context);
  if (claimed.state === 'done') return;
  if (claimed.state === 'busy') throw new Error(`fine ${fine.fineId} in flight elsewhere`);

  try {
    await orderLetter(fine);
  } catch (err) {
    await redis.eval(DROP_CLAIM, 1, key, claimed.token).catch(() => undefined);
    throw err;
  }

  for (let attempt = 1; attempt <= 3; attempt++) {
    try {
      await redis.eval(MARK_DONE, 1, key, claimed.token, DONE_SECONDS);
      return;
    } catch (err) {
      console.warn('mark done failed', fine.fineId, attempt, err);
    }
  }
  // letter is out; let SQS drop the message, the claim runs out by itself
}

export const handler = async (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
  const batchItemFailures: { itemIdentifier: string }[] = [];
  for (const record of event.Records) {
    try {
      if (context.getRemainingTimeInMillis() < LETTER_MS + 8_000) throw new Error('out of time');
      await handle(record, context);
    } catch (err) {
      console.error('record failed', record.messageId, err);
      batchItemFailures.push({ itemIdentifier: record.messageId });
    }
  }
  return { batchItemFailures };
};
