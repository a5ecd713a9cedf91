import { Redis } from '@upstash/redis';
import cron from 'node-cron';
import { randomUUID } from 'node:crypto';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const TTL_MS = 120_000;
const MAX_ATTEMPTS = 6;

async function acquireLock(key: string): Promise<{ token: string; expires: number }> {
  const token = `vat-${randomUUID()}`;
  let attempt = 0;
  let sent = Date.now();
  while (attempt < MAX_ATTEMPTS) {
    sent = Date.now();
    const res = await redis.set(key, token, { nx: true, px: TTL_MS });
    if (res === 'OK') break;
    attempt += 1;
    const backoff = Math.min(500 * 2 ** attempt, 10_000);
    await new Promise((r) => setTimeout(r, backoff * (0.5 + Math.random() / 2)));
  }
  return { token, expires: sent + TTL_MS };
}

async function releaseLock(key: string, token: string) {
  await redis.eval(
    `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`,
    [key],
    [token],
  );
}

export function scheduleVatExport(ledger: { lines(day: string): Promise<string[]> }, office: { has(day: string): Promise<boolean>; submit(day: string, lines: string[], timeoutMs: number): Promise<void> }) {
  cron.schedule('15 2 * * *', async () => {
    const day = new Date().toISOString().slice(0, 10);
    const key = `vat-export:${day}`;
    const lock = await acquireLock(key);
    try {
      if (await office.has(day)) return;
      const lines = await ledger.lines(day);
      if (Date.now() > lock.expires - 30_000) throw new Error(`vat export ${day}: out of time`);
      await office.submit(day, lines, 20_000);
    } finally {
      await releaseLock(key, lock.token);
    }
  });
}
