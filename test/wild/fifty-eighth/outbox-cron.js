const { randomUUID } = require('crypto');
const cron = require('node-cron');
const { createClient } = require('redis');
const { pendingMails, markSent } = require('./outbox');
const { sendMail } = require('./mailer');

const LOCK_KEY = 'cron:outbox';
const LOCK_TTL = 120; // seconds
const MAX_RUNTIME = 80 * 1000;

const UNLOCK_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('Redis Client Error', err));

async function lock() {
  const token = randomUUID();
  const acquired = await client.setNX(LOCK_KEY, token);
  if (!acquired) return null;
  // make sure a crashed worker doesn't keep the lock
  await client.expire(LOCK_KEY, LOCK_TTL);
  return token;
}

async function unlock(token) {
  try {
    await client.eval(UNLOCK_SCRIPT, { keys: [LOCK_KEY], arguments: [token] });
  } catch (err) {
    console.error('could not release cron lock', err);
  }
}

async function drainOutbox() {
  const token = await lock();
  if (!token) {
    console.log('outbox is drained by another instance');
    return;
  }

  const deadline = Date.now() + MAX_RUNTIME;
  try {
    for (const mail of await pendingMails({ limit: 200 })) {
      if (Date.now() > deadline) break; // the rest goes out with the next tick
      await sendMail(mail, { timeout: 10000, messageId: `outbox-${mail.id}` });
      await markSent(mail.id); // UPDATE ... SET sent_at = now() WHERE id = $1 AND sent_at IS NULL
    }
  } finally {
    await unlock(token);
  }
}

async function main() {
  await client.connect();
  cron.schedule('* * * * *', () => {
    drainOutbox().catch((err) => console.error('outbox run failed', err));
  });
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
