import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

/**
 * The FX rate book is a set of hashes, one per base currency. Pricing reads several of them and
 * must never see half of a new book; the publisher replaces all of them.
 * Many readers or one publisher. Readers hold it for some tens of milliseconds.
 */
const HOLD_MS = 15_000;
const WORK_MS = 6_000;

// Server time throughout: pricing hosts and publisher hosts are in different sites.
const NOW = `local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

const READ_ENTER = `${NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const WRITE_ENTER = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`;

const READ_LEAVE = `return redis.call('ZREM', KEYS[2], ARGV[1])`;
const WRITE_LEAVE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const KEYS = ['{fxbook}:writer', '{fxbook}:readers'];
const BASES = ['EUR', 'USD', 'GBP', 'CHF', 'JPY'];

const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
client.on('error', (err) => console.error('redis', err));
await client.connect();

async function guarded<T>(enter: string, leave: string, waitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const me = randomUUID();
  const giveUpAt = Date.now() + waitMs;
  while ((await client.eval(enter, { keys: KEYS, arguments: [me, String(HOLD_MS)] })) !== 1) {
    if (Date.now() >= giveUpAt) throw new Error('rate book is busy');
    await sleep(15 + Math.random() * 25);
  }
  try {
    return await work(AbortSignal.timeout(WORK_MS));
  } finally {
    await client.eval(leave, { keys: KEYS, arguments: [me] }).catch((err) => console.error('rate book leave', err));
  }
}

export function readBook(): Promise<Map<string, Record<string, string>>> {
  return guarded(READ_ENTER, READ_LEAVE, 2_000, async (signal) => {
    const book = new Map<string, Record<string, string>>();
    for (const base of BASES) {
      signal.throwIfAborted();
      book.set(base, await client.hGetAll(`fx:${base}`));
    }
    return book;
  });
}

export function publishBook(source: string): Promise<void> {
  return guarded(WRITE_ENTER, WRITE_LEAVE, 10_000, async (signal) => {
    const res = await fetch(source, { signal });
    if (!res.ok) throw new Error(`rate source answered ${res.status}`);
    const rates = (await res.json()) as Record<string, Record<string, string>>;
    for (const base of BASES) {
      if (!rates[base]) throw new Error(`no rates for ${base}`);
    }
    signal.throwIfAborted();
    const book = client.multi();
    for (const base of BASES) book.hSet(`fx:${base}`, rates[base]);
    await book.exec();
  });
}
