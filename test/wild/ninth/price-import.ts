import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.KV_REST_API_URL ?? 'http://localhost:8079',
  token: process.env.KV_REST_API_TOKEN ?? 'local',
  retry: false, // we do that ourselves
});

const TTL = 25_000;
const REPLY_MS = 1_500;

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const PROLONG = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

const within = <T>(ms: number, p: Promise<T>): Promise<T> => {
  let t: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    t = setTimeout(() => reject(new Error(`no reply in ${ms} ms`)), ms);
  });
  return Promise.race([p, late]).finally(() => clearTimeout(t));
};

export interface ImportLock {
  /** Prolongs if need be; throws when the lock is gone. Before each batch. */
  ensure(): Promise<void>;
  release(): Promise<void>;
}

export async function lockSupplier(supplier: string, attempts = 5): Promise<ImportLock | null> {
  const key = `prices:import:${supplier}`;
  const token = randomUUID();
  const unlock = () =>
    redis.eval(UNLOCK, [key], [token]).catch((err) => console.warn(`${key}: unlock`, err));

  for (let i = 0; i < attempts; i++) {
    if (i > 0) await sleep(300 * i + Math.random() * 300);
    const sent = performance.now();
    let reply: unknown;
    try {
      reply = await within(REPLY_MS, redis.set(key, token, { nx: true, px: TTL }));
    } catch (err) {
      // it may have been set although we do not know, so take it back
      console.warn(`${key}: attempt ${i + 1}`, err);
      void unlock();
      continue;
    }
    if (reply !== 'OK') continue;

    let until = sent + TTL - 500;
    return {
      async ensure() {
        const now = performance.now();
        if (now < until - TTL / 2) return;
        try {
          const ok = await within(REPLY_MS, redis.eval(PROLONG, [key], [token, String(TTL)]));
          if (ok !== 1) until = 0;
          else if (performance.now() < until) until = now + TTL - 500;
        } catch (err) {
          console.warn(`${key}: prolong`, err);
        }
        if (performance.now() >= until) throw new Error(`${key}: lock is gone`);
      },
      async release() {
        await unlock();
      },
    };
  }
  return null;
}

export interface Catalogue {
  batches(supplier: string): AsyncIterable<{ sku: string; cents: number }[]>;
  upsert(rows: { sku: string; cents: number }[]): Promise<void>;
}

export default async function importPrices(supplier: string, catalogue: Catalogue): Promise<boolean> {
  const lock = await lockSupplier(supplier);
  if (!lock) return false;
  try {
    for await (const rows of catalogue.batches(supplier)) {
      await lock.ensure();
      await catalogue.upsert(rows);
    }
    return true;
  } finally {
    await lock.release();
  }
}
