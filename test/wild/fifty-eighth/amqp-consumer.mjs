import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import amqp from 'amqplib';
import { createClient } from 'redis';
import { loadAccount, saveAccount } from './accounts.mjs';

const QUEUE = 'loyalty.points';
const LOCK_TTL = 20_000;
const DB_TIMEOUT = 5_000; // per query, so a message needs 10 s at the very most

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

/** Waits until nobody else works on the account and returns the token for unlock(). */
async function lock(accountId) {
  const key = `lock:account:${accountId}`;
  const token = randomUUID();

  let attempts = 0;
  while (attempts++ < 30) {
    const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL });
    if (reply === 'OK') break;
    await sleep(100 + Math.random() * 100);
  }

  return { key, token };
}

async function unlock({ key, token }) {
  try {
    await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn(`could not release ${key}`, err.message);
  }
}

async function addPoints({ eventId, accountId, points }) {
  const held = await lock(accountId);
  try {
    const account = await loadAccount(accountId, { timeout: DB_TIMEOUT });
    if (account.appliedEvents.includes(eventId)) return; // redelivered message

    account.points += points;
    account.tier = account.points >= 10_000 ? 'gold' : account.points >= 2_000 ? 'silver' : 'basic';
    account.appliedEvents = [...account.appliedEvents.slice(-199), eventId];
    await saveAccount(account, { timeout: DB_TIMEOUT });
  } finally {
    await unlock(held);
  }
}

const connection = await amqp.connect(process.env.AMQP_URL);
const channel = await connection.createChannel();
await channel.assertQueue(QUEUE, { durable: true });
await channel.prefetch(10);

await channel.consume(QUEUE, async (message) => {
  if (!message) return;
  try {
    await addPoints(JSON.parse(message.content.toString('utf8')));
    channel.ack(message);
  } catch (err) {
    console.error('message failed', err);
    channel.nack(message, false, !message.fields.redelivered);
  }
});

process.once('SIGTERM', async () => {
  await channel.close();
  await connection.close();
  await redis.quit();
});
