import { hostname } from 'node:os';
import { createClient } from 'redis';

const HOURS = 60 * 60 * 1000;

let connecting;

function redis() {
  connecting ??= createClient({ url: process.env.REDIS_URL, commandOptions: { timeout: 2000 } })
    .on('error', (err) => console.error('redis:', err.message))
    .connect();
  return connecting;
}

/**
 * All four instances run the same crontab. The first one to claim the day sends the digest; the claim is kept, so that
 * a slow instance does not send it a second time. Gone by itself after a day and a half.
 *
 * @param {() => Promise<void>} sendDigest
 * @param {Date} [today]
 * @returns {Promise<boolean>} whether this instance has sent it
 */
export async function runDailyDigest(sendDigest, today = new Date()) {
  const day = today.toISOString().slice(0, 10);
  const client = await redis();
  const claimed = await client.set(`cron:digest:${day}`, hostname(), {
    condition: 'NX',
    expiration: { type: 'PX', value: 36 * HOURS },
  });
  if (claimed !== 'OK') return false;
  await sendDigest();
  return true;
}
