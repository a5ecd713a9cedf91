import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
client.on('error', (err) => console.error('redis', err));

// KEYS[1] hash owner -> depth; ARGV owner, ttl, nested flag
const ENTER = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 1
   or (ARGV[3] == '0' and redis.call('exists', KEYS[1]) == 0) then
  local depth = redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return depth
end
return 0`;

const LEAVE = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
local depth = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if depth <= 0 then redis.call('del', KEYS[1]) end
return depth`;

const TTL_MS = 15_000;
const WORK_BUDGET_MS = 11_000;
const WAIT_MS = 5_000;

interface Held {
  owner: string;
  signal: AbortSignal;
}

// What the current call chain holds. Another request has another chain.
const chain = new AsyncLocalStorage<ReadonlyMap<string, Held>>();

export class LockTimeout extends Error {}

async function enter(key: string, owner: string, nested: boolean): Promise<boolean> {
  const depth = await client.eval(ENTER, {
    keys: [key],
    arguments: [owner, String(TTL_MS), nested ? '1' : '0'],
  });
  return Number(depth) > 0;
}

async function leave(key: string, owner: string): Promise<void> {
  try {
    await client.eval(LEAVE, { keys: [key], arguments: [owner] });
  } catch (err) {
    console.warn(`leave ${key} failed, left to the TTL`, err);
  }
}

export async function withSkuLock<T>(sku: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const key = `lock:sku:${sku}`;
  const outer = chain.getStore()?.get(key);

  if (outer) {
    outer.signal.throwIfAborted();
    // Never takes the lock anew: if the outer level has lost it, the inner level must not go on.
    if (!(await enter(key, outer.owner, true))) throw new LockTimeout(`${key} was lost`);
    try {
      return await fn(outer.signal);
    } finally {
      await leave(key, outer.owner);
    }
  }

  const owner = randomUUID();
  const giveUp = performance.now() + WAIT_MS;
  let signal = AbortSignal.timeout(WORK_BUDGET_MS); // started before the command is sent
  while (!(await enter(key, owner, false))) {
    if (performance.now() > giveUp) throw new LockTimeout(key);
    await sleep(40 + Math.random() * 80);
    signal = AbortSignal.timeout(WORK_BUDGET_MS);
  }

  const held = new Map(chain.getStore() ?? []);
  held.set(key, { owner, signal });
  try {
    return await chain.run(held, () => fn(signal));
  } finally {
    await leave(key, owner);
  }
}

async function setQuantity(sku: string, site: string, change: number): Promise<void> {
  await withSkuLock(sku, async (signal) => {
    const current = Number((await client.hGet(`stock:${sku}`, site)) ?? 0);
    if (current + change < 0) throw new RangeError(`${sku} short at ${site}`);
    signal.throwIfAborted();
    await client.hSet(`stock:${sku}`, site, String(current + change));
  });
}

/** Books the result of a stocktaking; setQuantity takes the same lock again. */
export async function recount(sku: string, site: string, counted: number): Promise<number> {
  return withSkuLock(sku, async (signal) => {
    const booked = Number((await client.hGet(`stock:${sku}`, site)) ?? 0);
    const change = counted - booked;
    signal.throwIfAborted();
    if (change !== 0) await setQuantity(sku, site, change);
    return change;
  });
}

export const connect = () => client.connect();
