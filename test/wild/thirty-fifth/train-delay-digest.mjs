import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const PERIOD_MS = 15 * 60_000;
const SETTLE_MS = 60_000; // late reports of a period still arrive for a minute
const GUARD_MS = 120_000;
const WORK_MS = 60_000;
const KEEP_DONE_MS = 24 * 3_600_000;

const MARK_DONE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
  return 1
end
return 0`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export async function connect() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('redis', err.message));
  await client.connect();
  return client;
}

function summarize(delays) {
  const byLine = new Map();
  for (const { line, minutes } of delays) {
    const entry = byLine.get(line) ?? { trains: 0, minutes: 0 };
    entry.trains += 1;
    entry.minutes += minutes;
    byLine.set(line, entry);
  }
  return Object.fromEntries(byLine);
}

/**
 * Publishes the digest of one period, on whichever replica gets there first.
 * Resolves to false if the period is done or in the hands of another replica.
 */
export async function publishDigest(client, api, slot) {
  const key = `train-delays:digest:${slot}`;
  const token = randomUUID();
  const signal = AbortSignal.timeout(WORK_MS);
  const won = await client.set(key, token, { NX: true, PX: GUARD_MS });
  if (won !== 'OK') return false;

  try {
    const delays = await api.delaysBetween(slot * PERIOD_MS, (slot + 1) * PERIOD_MS, { signal });
    signal.throwIfAborted();
    // PUT /digests/:slot replaces the digest of that slot
    await api.putDigest(slot, summarize(delays), { signal });
  } catch (err) {
    await client
      .eval(GIVE_BACK, { keys: [key], arguments: [token] })
      .catch((e) => console.warn(`guard of slot ${slot} runs out on its own`, e));
    throw err;
  }

  for (let attempt = 1; attempt <= 3; attempt += 1) {
    try {
      await client.eval(MARK_DONE, { keys: [key], arguments: [token, String(KEEP_DONE_MS)] });
      return true;
    } catch (err) {
      console.warn(`slot ${slot} published, mark attempt ${attempt} failed`, err);
      await sleep(1_000 * attempt);
    }
  }
  // Unmarked, the guard runs out and a replica puts the same digest once more.
  return true;
}

/** Every replica runs this. The slot before the last one is looked at again, in case it failed. */
export async function pollDigests(client, api, stop) {
  while (!stop.aborted) {
    const last = Math.floor((Date.now() - SETTLE_MS) / PERIOD_MS) - 1;
    for (const slot of [last - 1, last]) {
      try {
        if (await publishDigest(client, api, slot)) console.log(`digest ${slot} published`);
      } catch (err) {
        console.error(`digest ${slot} failed, next poll retries`, err);
      }
    }
    await sleep(20_000, undefined, { signal: stop }).catch(() => {});
  }
}
