import { createClient } from 'redis';
import { hostname } from 'node:os';

// crontab on every app host:  15 3 * * *  node nightly-digest-cron.mjs
// (hosts run on UTC; the digest must go out once a night, a missed one is better than two)

const url = process.env.REDIS_URL ?? `redis://${process.env.REDIS_HOST ?? 'localhost'}:${process.env.REDIS_PORT ?? 6379}`;
const GUARD_SECONDS = 36 * 3600;

export function slotOf(date) {
  return date.toISOString().slice(0, 10); // 2025-03-31
}

export async function claimNight(redis, date) {
  const key = `cron:digest:${slotOf(date)}`;
  const reply = await redis.set(key, `${hostname()} ${date.toISOString()}`, {
    condition: 'NX',
    expiration: { type: 'EX', value: GUARD_SECONDS },
  });
  return reply === 'OK';
}

async function* subscribers() {
  const base = process.env.CRM_URL ?? 'http://crm.internal';
  let cursor = '';
  do {
    const res = await fetch(`${base}/subscribers?cursor=${cursor}`, { signal: AbortSignal.timeout(10_000) });
    if (!res.ok) throw new Error(`crm said ${res.status}`);
    const page = await res.json();
    yield* page.items;
    cursor = page.next ?? '';
  } while (cursor);
}

async function sendDigest(night) {
  let sent = 0;
  for await (const s of subscribers()) {
    const res = await fetch(`${process.env.MAILER_URL}/send`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ to: s.email, template: 'digest', night }),
      signal: AbortSignal.timeout(15_000),
    });
    if (!res.ok) console.error(`digest to ${s.id} failed with ${res.status}`);
    else sent++;
  }
  return sent;
}

async function main() {
  const now = new Date();
  const redis = createClient({ url, disableOfflineQueue: true });
  redis.on('error', (err) => console.error('redis:', err.message));
  await redis.connect();

  try {
    if (!(await claimNight(redis, now))) {
      console.log(`digest for ${slotOf(now)} is taken by another host`);
      return;
    }
  } finally {
    redis.destroy();
  }

  // The claim stays, also when sending breaks half way: on-call looks at the log and
  // decides, half the people have their mail already.
  const sent = await sendDigest(slotOf(now));
  console.log(`digest ${slotOf(now)}: ${sent} mails`);
}

if (import.meta.url === `file://${process.argv[1]}`) {
  main().catch((err) => {
    console.error('digest failed', err);
    process.exitCode = 1;
  });
}
