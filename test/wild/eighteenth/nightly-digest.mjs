// Sends the digest mails once per day. Every replica starts this at 02:00 UTC
// from its own crontab; the first to set the marker of the day does the work.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// Longer than the day that the key names, so that the marker outlives every attempt at it.
const MARKER_SECONDS = 48 * 60 * 60;

const utcDay = () => new Date().toISOString().slice(0, 10);

/**
 * True when the marker is ours. Called again after an error it uses the same token:
 * a SET whose answer got lost is recognised by what is stored.
 */
async function claim(client, key, token) {
  for (let attempt = 1; ; attempt++) {
    try {
      const reply = await client.set(key, token, { NX: true, EX: MARKER_SECONDS });
      if (reply === 'OK') return true;
      return (await client.get(key)) === token;
    } catch (err) {
      if (attempt === 4) throw err;
      console.warn('digest marker, attempt %d: %s', attempt, err.message);
      await sleep(attempt * 1_000);
    }
  }
}

/**
 * At most once per day: the marker stays, also if the job fails half way,
 * because mails that are out cannot be called back.
 *
 * @param {ReturnType<typeof createClient>} client
 * @param {(day: string, signal: AbortSignal) => Promise<number>} sendDigests
 */
export async function runNightlyDigest(client, sendDigests) {
  const day = utcDay();
  const key = `digest:sent:${day}`;
  const token = `${hostname()}:${randomUUID()}`;

  if (!(await claim(client, key, token))) {
    console.info('digest of %s is done elsewhere', day);
    return false;
  }
  if (utcDay() !== day) {
    // Redis was away for hours, this digest is old news.
    console.error('digest of %s was claimed too late, skipped', day);
    return false;
  }

  try {
    const mails = await sendDigests(day, AbortSignal.timeout(3 * 60 * 60 * 1_000));
    console.info('digest of %s: %d mails', day, mails);
    return true;
  } catch (err) {
    console.error('digest of %s failed, needs a look by hand: %s', day, err.message);
    throw err;
  }
}

export async function main(sendDigests) {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.warn('redis: %s', err.message));
  await client.connect();
  try {
    return await runNightlyDigest(client, sendDigests);
  } finally {
    client.destroy();
  }
}
