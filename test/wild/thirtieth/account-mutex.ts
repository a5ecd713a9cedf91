import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// connected in main.ts
export const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('accounts: redis', err));

const TTL_MS = 30_000;
const WAIT_MS = 5_000;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const POST = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'balance', ARGV[2])
redis.call('SADD', KEYS[3], ARGV[3])
redis.call('XADD', KEYS[4], '*', 'entry', ARGV[3], 'cents', ARGV[4], 'balance', ARGV[2])
return 1`;

interface Lease {
  readonly key: string;
  readonly token: string;
  open: boolean;
  tail: Promise<void>; // nested calls queue up here
}

const held = new AsyncLocalStorage<ReadonlyMap<string, Lease>>();

async function unlock(key: string, token: string): Promise<void> {
  try {
    await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn(`accounts: ${key} not unlocked, expires in ${TTL_MS} ms`, err);
  }
}

async function lock(key: string): Promise<string> {
  const giveUpAt = Date.now() + WAIT_MS;
  for (;;) {
    const token = randomUUID();
    let reply: unknown;
    try {
      reply = await redis.set(key, token, { NX: true, PX: TTL_MS });
    } catch (err) {
      await unlock(key, token);
      throw err;
    }
    if (reply === 'OK') return token;
    if (Date.now() > giveUpAt) throw new Error(`account busy: ${key}`);
    await sleep(20 + Math.random() * 80);
  }
}

async function runWith<T>(lease: Lease, fn: (lease: Lease) => Promise<T>): Promise<T> {
  const scope = new Map(held.getStore() ?? []).set(lease.key, lease);
  try {
    return await held.run(scope, () => fn(lease));
  } finally {
    for (let seen; seen !== lease.tail; ) await (seen = lease.tail);
    lease.open = false;
  }
}

/** Per-account mutex; calls nested inside `fn` share the lock of the outer call. */
export async function withAccount<T>(id: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
  const key = `{acct:${id}}:lock`;
  const outer = held.getStore()?.get(key);
  if (outer?.open) {
    const nested: Lease = { key, token: outer.token, open: true, tail: Promise.resolve() };
    const run = outer.tail.then(() => runWith(nested, fn));
    outer.tail = run.then(() => {}, () => {});
    return run;
  }

  const token = await lock(key);
  try {
    return await runWith({ key, token, open: true, tail: Promise.resolve() }, fn);
  } finally {
    await unlock(key, token);
  }
}

export function postEntry(id: string, entryId: string, cents: number): Promise<number> {
  return withAccount(id, async (lease) => {
    const account = `{acct:${id}}`;
    const balance = Number((await redis.hGet(account, 'balance')) ?? 0);
    if (await redis.sIsMember(`${account}:posted`, entryId)) return balance;
    const next = balance + cents;
    if (next < 0) throw new Error(`account ${id}: insufficient funds`);
    const done = await redis.eval(POST, {
      keys: [lease.key, account, `${account}:posted`, `${account}:journal`],
      arguments: [lease.token, String(next), entryId, String(cents)],
    });
    if (done !== 1) throw new Error(`account ${id}: lock ran out before the entry was posted`);
    return next;
  });
}

export function charge(id: string, entryId: string, cents: number): Promise<number> {
  return withAccount(id, async () => {
    const status = await redis.hGet(`{acct:${id}}`, 'status');
    if (status === 'frozen') throw new Error(`account ${id} is frozen`);
    return postEntry(id, entryId, -cents);
  });
}
