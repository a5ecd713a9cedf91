// Sends the usage report once a day. Runs in every replica; only one of them does the work.
// npm i redis@5 node-cron
import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { createClient, defineScript } from 'redis';
import { buildUsageReport } from './reports.mjs';

const LOCK_KEY = 'cron:usage-report:lock';
const LOCK_TTL = 10 * 60 * 1000;
const WORK_LIMIT = 7 * 60 * 1000; // well inside the ttl

const client = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true, // no connection = no run, instead of a SET that sits in a queue
  scripts: {
    unlock: defineScript({
      NUMBER_OF_KEYS: 1,
      SCRIPT: `
        if redis.call('GET', KEYS[1]) == ARGV[1] then
          return redis.call('DEL', KEYS[1])
        end
        return 0
      `,
      parseCommand(parser, key, token) {
        parser.pushKey(key);
        parser.push(token);
      },
      transformReply: (reply) => reply === 1,
    }),
  },
});

client.on('error', (err) => console.error('redis:', err.message));
await client.connect();

async function sendReport(day, signal) {
  const report = await buildUsageReport(day, { signal });
  // PUT by date: sending the same day twice replaces the document, nobody gets a second mail
  const res = await fetch(`${process.env.REPORT_API}/usage/${day}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(report),
    signal,
  });
  if (!res.ok) throw new Error(`report api answered ${res.status}`);
}

async function runOnce() {
  const day = new Date().toISOString().slice(0, 10);
  const doneKey = `cron:usage-report:done:${day}`;
  const token = randomUUID();

  const locked = await client.set(LOCK_KEY, token, { NX: true, PX: LOCK_TTL });
  if (locked !== 'OK') {
    console.log('usage report: another replica is on it');
    return;
  }
  const signal = AbortSignal.timeout(WORK_LIMIT);

  try {
    // a replica whose clock is behind arrives after the first one has already let go
    if (await client.get(doneKey)) return;
    await sendReport(day, signal);
    await client.set(doneKey, '1', { EX: 3 * 24 * 3600 });
  } finally {
    try {
      if (!(await client.unlock(LOCK_KEY, token))) console.warn('usage report: lock had expired');
    } catch (err) {
      console.warn('usage report: unlock failed, ttl will clear it:', err.message);
    }
  }
}

// the later ticks only matter if the first holder crashed or failed
cron.schedule(
  '15,30,45 2 * * *',
  () => {
    runOnce().catch((err) => console.error('usage report failed:', err));
  },
  { timezone: 'UTC' },
);
