// Reads "merchant has balance" messages from SQS and pays out everything that is pending.
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createClient } from 'redis';

const { QUEUE_URL, REDIS_URL, DATABASE_URL, BANK_URL, BANK_TOKEN } = process.env;

const sqs = new SQSClient({});
const pool = new pg.Pool({ connectionString: DATABASE_URL });
const redis = createClient({ url: REDIS_URL });
redis.on('error', (e) => console.error('redis error', e));

const LOCK_TTL = 30; // seconds

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

async function withMerchantLock(merchantId, work) {
  const key = `payout-lock:${merchantId}`;
  const token = randomUUID();
  const ok = await redis.set(key, token, { NX: true, EX: LOCK_TTL });
  if (ok !== 'OK') return { skipped: true };
  try {
    return await work();
  } finally {
    await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
  }
}

async function transfer(payout) {
  const res = await fetch(`${BANK_URL}/v2/transfers`, {
    method: 'POST',
    headers: { authorization: `Bearer ${BANK_TOKEN}`, 'content-type': 'application/json' },
    body: JSON.stringify({ iban: payout.iban, amount: payout.amount_cents, memo: `Payout ${payout.id}` }),
  });
  if (!res.ok) throw new Error(`bank said ${res.status}: ${await res.text()}`);
  return (await res.json()).transferId;
}

async function payMerchant(merchantId) {
  const { rows } = await pool.query(
    `select id, iban, amount_cents from payouts
      where merchant_id = $1 and status = 'pending' and attempted_at is null
      order by created_at`,
    [merchantId],
  );
  for (const payout of rows) {
    // if we crash after this line, somebody in finance looks at it
    await pool.query('update payouts set attempted_at = now() where id = $1', [payout.id]);
    // the bank takes two to six seconds per transfer
    const transferId = await transfer(payout);
    await pool.query(`update payouts set status = 'paid', transfer_id = $2, paid_at = now() where id = $1`, [
      payout.id,
      transferId,
    ]);
    console.log('paid', payout.id, transferId);
  }
  return { paid: rows.length };
}

async function handle(message) {
  const { merchantId } = JSON.parse(message.Body);
  const result = await withMerchantLock(merchantId, () => payMerchant(merchantId));
  if (result.skipped) {
    // leave it in the queue, it becomes visible again after the visibility timeout
    console.log('merchant busy', merchantId);
    return;
  }
  await sqs.send(new DeleteMessageCommand({ QueueUrl: QUEUE_URL, ReceiptHandle: message.ReceiptHandle }));
}

await redis.connect();
let running = true;
process.on('SIGTERM', () => (running = false));

while (running) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({ QueueUrl: QUEUE_URL, MaxNumberOfMessages: 5, WaitTimeSeconds: 20, VisibilityTimeout: 900 }),
  );
  await Promise.all(Messages.map((m) => handle(m).catch((err) => console.error('message failed', m.MessageId, err))));
}

await redis.quit();
await pool.end();
