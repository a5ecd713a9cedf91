import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const TTL = 8_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Hold {
  token: string;
  deadline: number;
  depth: number;
}

// What the current chain of calls holds, by key. Other requests of this process see nothing of it.
const holds = new AsyncLocalStorage<ReadonlyMap<string, Hold>>();

async function acquire(key: string, timeout: number): Promise<Hold> {
  const token = randomUUID();
  const giveUp = performance.now() + timeout;
  for (;;) {
    const asked = performance.now();
    if ((await redis.set(key, token, 'PX', TTL, 'NX')) === 'OK') {
      return { token, deadline: asked + TTL, depth: 0 };
    }
    if (performance.now() > giveUp) throw new Error(`${key} is locked`);
    await sleep(25 + Math.random() * 50);
  }
}

async function enter<T>(key: string, hold: Hold, fn: () => Promise<T>): Promise<T> {
  if (performance.now() >= hold.deadline) throw new Error(`the lock of ${key} ran out`);
  hold.depth++;
  try {
    return await fn();
  } finally {
    hold.depth--;
    if (hold.depth === 0) {
      await redis.eval(UNLOCK, 1, key, hold.token).catch((err) => console.warn(`unlock ${key}`, err));
    }
  }
}

/**
 * Lock of a cart. It may be taken again by what is called from inside of `fn`.
 */
export async function withCart<T>(cartId: string, fn: () => Promise<T>, timeout = 4_000): Promise<T> {
  const key = `cart:${cartId}:lock`;
  const outer = holds.getStore();
  const mine = outer?.get(key);
  // depth 0: it was ours, but the call that took it is over
  if (mine && mine.depth > 0) return enter(key, mine, fn);

  const hold = await acquire(key, timeout);
  const inner = new Map(outer ?? []).set(key, hold);
  return holds.run(inner, () => enter(key, hold, fn));
}

/** For writers: throws unless the caller holds the cart and has time left. */
export function assertCartHeld(cartId: string): void {
  const hold = holds.getStore()?.get(`cart:${cartId}:lock`);
  if (!hold || hold.depth === 0 || performance.now() >= hold.deadline) {
    throw new Error(`cart ${cartId} is not locked by the caller`);
  }
}

export async function addItem(cartId: string, sku: string, quantity: number): Promise<void> {
  await withCart(cartId, async () => {
    assertCartHeld(cartId);
    await redis.hincrby(`cart:${cartId}`, sku, quantity);
  });
}

export async function addBundle(cartId: string, skus: string[]): Promise<void> {
  await withCart(cartId, async () => {
    for (const sku of skus) await addItem(cartId, sku, 1);
  });
}
