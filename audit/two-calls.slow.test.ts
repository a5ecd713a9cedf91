import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** What using a lock without faults finds, in sentences after ids, and so many runs of a search. */
async function foundIn(text: string, runs = 0): Promise<string[]> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  const { findings } = await auditFile({ path, runs, seed: 's', budgetMs: 60_000 }, () => {});
  return findings.map(({ id, sentence }) => `${id}: ${sentence}`);
}

/** A function that works under a lock on `key`; `before` is done before it asks, `work` while it has the lock. */
const working = (key: string, before: string, work: string): string => `import type { Redis } from 'ioredis';
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Item { sku: string; available: number; version: number; closed: boolean }
interface Store {
  item(sku: string): Promise<Item | undefined>;
  setAvailable(sku: string, available: number, version?: number): Promise<void>;
}
export async function reserve(redis: Redis, store: Store, sku: string, user: string): Promise<boolean> {
  const [lock, token] = [${key}, String(Math.random())];
  ${before}
  if ((await redis.set(lock, token, 'PX', 8_000, 'NX')) !== 'OK') return false;
  try {
    ${work}
    return true;
  } finally {
    await redis.eval(DEL, 1, lock, token);
  }
}`;

describe('two calls of a function, about the same in one way and different in others', () => {
  const adds = `const seats = JSON.parse((await redis.get('seats:' + sku)) ?? '[]');
    await redis.set('seats:' + sku, JSON.stringify([...seats, user]));`;

  it('are kept apart where the lock is named after more than the data', async () => {
    await expect(foundIn(working("'lock:' + sku + ':' + user", '', adds))).resolves.toEqual([
      expect.stringMatching(
        /^locks-apart: two calls of reserve both read seats:a .*\(lock:a:a and lock:a:a-user\), as its lock is named after user too/,
      ),
    ]);
    await expect(foundIn(working("'lock:' + sku", '', adds))).resolves.toEqual([]);
  });

  it('lose a change where one has read the data before it has the lock', async () => {
    const reads = `const seats = JSON.parse((await redis.get('seats:' + sku)) ?? '[]');
  if (seats.includes(user)) return true;`;
    const stores = "await redis.set('seats:' + sku, JSON.stringify([...seats, user]));";
    await expect(foundIn(working("'lock:' + sku", reads, stores))).resolves.toEqual([
      expect.stringMatching(/^reads-before-lock: reserve reads seats:a before it has the lock/),
    ]);
    await expect(
      foundIn(working("'lock:' + sku", '', `${reads.replace('return true', 'throw 1')} ${stores}`)),
    ).resolves.toEqual([]);
  });
});

describe('a store that a function is handed', () => {
  const READS = 'const item = await store.item(sku); if (!item || item.closed) return false;';

  it('is read before the lock, and changed under it by what was read', async () => {
    const stores = 'await store.setAvailable(sku, item.available - 1);';
    await expect(foundIn(working("'lock:' + sku", READS, stores))).resolves.toEqual([
      expect.stringMatching(/^reads-before-lock: reserve calls store.item before it has the lock/),
    ]);
    await expect(foundIn(working("'lock:' + sku", '', READS + stores))).resolves.toEqual([]);
  });

  it.each([
    ['compares what was read', 'await store.setAvailable(sku, item.version + 1, item.version * 1);'],
    ['is told what does not depend on it', 'await store.setAvailable(item.sku, 5);'],
  ])('%s', async (_, stores) => {
    await expect(foundIn(working("'lock:' + sku", READS, stores))).resolves.toEqual([]);
  });
});

describe('two calls of one process', () => {
  /** A lock that counts its nested calls; `current` is the hold that a call may enter. */
  const nested = (current: string): string => `import { AsyncLocalStorage } from 'node:async_hooks';
import type { Redis } from 'ioredis';
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Hold { token: string; depth: number; until: number }
const holds = new Map<string, Hold>();
const own = new AsyncLocalStorage<Map<string, Hold>>();
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
export async function withLock(redis: Redis, name: string, work: () => Promise<void>): Promise<void> {
  const [token, giveUpMs] = [String(Math.random()), performance.now() + 5_000];
  let hold: Hold | undefined;
  while (hold === undefined) {
    const current = ${current};
    if (current !== undefined && performance.now() < current.until) { current.depth++; hold = current; break; }
    const from = performance.now();
    if ((await redis.set('lock:' + name, token, 'PX', 20_000, 'NX')) === 'OK') hold = { token, depth: 1, until: from + 19_000 };
    else if (performance.now() > giveUpMs) throw new Error('busy');
    else await wait(50);
  }
  holds.set(name, hold);
  try {
    await own.run(new Map([[name, hold]]), work);
  } finally {
    if (--hold.depth === 0) {
      if (holds.get(name) === hold) holds.delete(name);
      await redis.eval(DEL, 1, 'lock:' + name, hold.token);
    }
  }
}`;

  it('hold a lock at once that is nested for all that its process does', async () => {
    await expect(foundIn(nested('holds.get(name)'), 40)).resolves.toEqual([
      expect.stringMatching(/^lets-tasks-in: it lets two tasks of one process in at once/),
    ]);
    await expect(foundIn(nested('own.getStore()?.get(name)'), 40)).resolves.toEqual([]);
  });
});

describe('two calls of a function by one process, about different things', () => {
  const entering = (field: string): string => `import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Lease { key: string; token: string }
class Guard {
  private lease?: Lease;
  constructor(private readonly redis: Redis) {}
  async enter(sku: string): Promise<Lease> {
    const lease = { key: 'stock:' + sku, token: randomUUID() };
    while ((await this.redis.set(lease.key, lease.token, 'PX', 8_000, 'NX')) !== 'OK')
      await new Promise((resolve) => setTimeout(resolve, 50));
    this.lease = lease;
    return lease;
  }
  async leave(lease?: Lease): Promise<void> {
    const { key, token } = ${field};
    await this.redis.eval(DEL, 1, key, token);
  }
}
export function stockService(redis: Redis, stock: { take(sku: string): Promise<void> }) {
  const guard = new Guard(redis);
  return async function reserve(sku: string): Promise<void> {
    const lease = await guard.enter(sku);
    try { await stock.take(sku); } finally { await guard.leave(lease); }
  };
}`;

  it('release the lock of each other where one object keeps what a release needs', async () => {
    await expect(foundIn(entering('this.lease!'))).resolves.toEqual([expect.stringMatching(/^shared-state: /)]);
    await expect(foundIn(entering('lease!'))).resolves.toEqual([]);
  });
});
