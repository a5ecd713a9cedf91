import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

// Monthly statements. Each replica fires at 02:00 on the 1st, give or take the
// scheduler's jitter of a few minutes; the first one to take the month's key
// does the run and mails each customer once.
const GUARD_TTL_MS = 24 * 60 * 60 * 1000;
const RUN_BUDGET_MS = 90 * 60 * 1000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export async function connect() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('redis', err.message));
  await client.connect();
  return client;
}

/**
 * @param {Awaited<ReturnType<typeof connect>>} client
 * @param {string} month  for example 2025-03
 * @param {{ customers(month: string, opts: { signal: AbortSignal }): Promise<{ id: string, email: string }[]> }} billing
 * @param {{ statement(customer: object, month: string, opts: { signal: AbortSignal }): Promise<void> }} mailer
 */
export async function runStatements(client, month, billing, mailer) {
  const key = `cron:statements:${month}`;
  const token = randomUUID();
  const startedAt = Date.now();

  const reply = await client.set(key, token, {
    condition: 'NX',
    expiration: { type: 'PX', value: GUARD_TTL_MS },
  });
  if (reply !== 'OK') {
    return { status: 'skipped', month };
  }

  const failed = [];
  let sent = 0;
  try {
    const signal = AbortSignal.timeout(Math.max(1, startedAt + RUN_BUDGET_MS - Date.now()));
    const customers = await billing.customers(month, { signal });
    for (const customer of customers) {
      signal.throwIfAborted();
      try {
        await mailer.statement(customer, month, { signal });
        sent++;
      } catch (err) {
        // A bad address must not stop the run; support gets the list.
        signal.throwIfAborted();
        failed.push({ id: customer.id, reason: err.message });
      }
    }
  } finally {
    await release(client, key, token);
  }
  return { status: 'done', month, sent, failed };
}

async function release(client, key, token) {
  try {
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn('statement guard left to its TTL', key, err.message);
  }
}
