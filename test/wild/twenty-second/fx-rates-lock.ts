import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis:', err.message));
await client.connect();

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const STORE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', 7200)
return 1`;

export type Held = { key: string; token: string; until: number };

export async function lock(name: string, ttlMs: number): Promise<Held | null> {
  const key = `lock:{${name}}`;
  const token = randomUUID();
  const until = performance.now() + ttlMs;
  const reply = await client.set(key, token, {
    condition: 'NX',
    expiration: { type: 'PX', value: ttlMs },
  });
  return reply === 'OK' ? { key, token, until } : null;
}

export async function unlock({ key, token }: Held): Promise<boolean> {
  return (await client.eval(UNLOCK, { keys: [key], arguments: [token] })) === 1;
}

export async function refreshRates(): Promise<boolean> {
  const held = await lock('fx', 20_000);
  if (!held) return false;
  try {
    const budget = Math.floor(Math.min(10_000, held.until - performance.now() - 5_000));
    if (budget <= 0) return false;
    const res = await fetch(process.env.FX_FEED_URL!, { signal: AbortSignal.timeout(budget) });
    if (!res.ok) throw new Error(`fx feed: ${res.status}`);
    const rates = await res.text();
    // Only the holder of the lock may publish; the server decides who that is.
    const stored = await client.eval(STORE, {
      keys: [held.key, 'rates:{fx}'],
      arguments: [held.token, rates],
    });
    return stored === 1;
  } finally {
    await unlock(held).catch(() => false);
  }
}
