import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** What using a lock without faults finds, by id and place; nothing is searched. */
async function foundIn(text: string): Promise<string[]> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  const { findings } = await auditFile({ path, runs: 0, seed: '', budgetMs: 1_000 }, () => {});
  return findings.map(({ id, place }) => `${id} ${place?.line}`);
}

const HEAD = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const OWN = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
`;

/** How a new value is stored. */
const STORES = {
  plain: "await this.redis.set('stock:' + sku, count);",
  script: `const ok = await this.redis.eval(OWN + "redis.call('set', KEYS[2], ARGV[2]) return 1", 2, lock, 'stock:' + sku, token, count);
      if (ok !== 1) throw new Error('lost');`,
  compared: `const ok = await this.redis.eval(OWN + "if (redis.call('get', KEYS[2]) or '0') ~= ARGV[3] then return 0 end redis.call('set', KEYS[2], ARGV[2]) return 1", 2, lock, 'stock:' + sku, token, count, before);
      if (ok !== 1) throw new Error('changed');`,
  added: "await this.redis.incrby('stock:' + sku, count - before);",
  other: "await this.redis.set('stock:' + lock, count);",
};

/** Two methods that change a count: under the locks of these names, taken in turn. */
const stock = (stores: string, [addsUnder, takesUnder]: readonly [readonly string[], readonly string[]]): string => {
  const under = (locks: readonly string[], inner: string): string =>
    locks.reduceRight((work, it) => `return this.locked('${it}:' + sku, async (lock, token) => { ${work} });`, inner);
  const changes = (change: string): string => `const before = Number((await this.redis.get('stock:' + sku)) ?? 0);
      const count = ${change};
      if (count < 0) throw new Error('none left');
      ${stores}
      return count;`;
  return `${HEAD}export class Stock {
  constructor(private readonly redis: Redis) {}
  async sell(sku: string, n: number): Promise<number> { ${under(takesUnder, changes('before - n'))} }
  async restock(sku: string, n: number): Promise<number> { ${under(addsUnder, changes('before + n'))} }
  private async locked<T>(lock: string, work: (lock: string, token: string) => Promise<T>): Promise<T> {
    const token = randomUUID();
    for (let i = 0; (await this.redis.set(lock, token, 'PX', 8000, 'NX')) !== 'OK'; i++) {
      if (i > 50) throw new Error('busy');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    try {
      return await work(lock, token);
    } finally {
      await this.redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, lock, token);
    }
  }
}`;
};
const [ONE, TWO, BOTH] = [['adding'], ['taking'], ['adding', 'taking']];

it.each([
  ['stores the value by SET', stock(STORES.plain, [ONE, TWO])],
  ['stores the value by a script that looks at its lock', stock(STORES.script, [ONE, TWO])],
])('finds a method that changes the value of another under another lock and %s', async (_, text) => {
  await expect(foundIn(text)).resolves.toEqual([expect.stringMatching(/^locks-apart /)]);
});

it.each([
  ['take one lock', stock(STORES.plain, [ONE, ONE])],
  ['have one of two locks in common', stock(STORES.plain, [BOTH, TWO])],
  ['compare the value as they store it', stock(STORES.compared, [ONE, TWO])],
  ['change the value by one command', stock(STORES.added, [ONE, TWO])],
  ['store values of their own', stock(STORES.other, [ONE, TWO])],
  ['store what depends on no value', stock(STORES.plain, [ONE, TWO]).replace(/before [-+] n/g, 'n')],
])('lets methods pass that %s', async (_, text) => {
  await expect(foundIn(text)).resolves.toEqual([]);
});

it('finds exported functions that change one field of a hash under different locks', async () => {
  const text = `${HEAD}async function locked<T>(redis: Redis, lock: string, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  if ((await redis.set(lock, token, 'PX', 8000, 'NX')) !== 'OK') throw new Error('busy');
  try { return await work(); } finally { await redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, lock, token); }
}
export async function open(redis: Redis, id: string) {
  return locked(redis, 'open:' + id, async () => {
    const { seats = '0' } = await redis.hgetall('room:' + id);
    await redis.hset('room:' + id, 'seats', Number(seats) + 4);
  });
}
export async function book(redis: Redis, id: string) {
  return locked(redis, 'book:' + id, async () => {
    const seats = Number(await redis.hget('room:' + id, 'seats'));
    if (seats > 0) await redis.hset('room:' + id, 'seats', seats - 1);
  });
}`;
  await expect(foundIn(text)).resolves.toEqual([expect.stringMatching(/^locks-apart /)]);
  await expect(foundIn(text.replace("'room:' + id, 'seats', seats - 1", "'room:' + id, 'booked', 1"))).resolves.toEqual(
    [],
  );
});

it('finds a function that releases what another call of its process holds', async () => {
  const opening = (before: string, inside: string): string => `${HEAD}
interface Vault { take(box: string): Promise<void> }
export class Boxes {
  private readonly held = new Map<string, string>();
  constructor(private readonly redis: Redis, private readonly vault: Vault) {}
  async acquire(box: string): Promise<boolean> {
    if (this.held.has(box)) return false;
    const token = randomUUID();
    const isOwn = (await this.redis.set('box:' + box, token, 'PX', 8000, 'NX')) === 'OK';
    if (isOwn) this.held.set(box, token);
    return isOwn;
  }
  async release(box: string): Promise<void> {
    const token = this.held.get(box);
    if (!token) return;
    this.held.delete(box);
    await this.redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, 'box:' + box, token);
  }
  async open(box: string): Promise<void> {
    ${before}
    try {
      ${inside}
      await this.vault.take(box);
    } finally {
      await this.release(box);
    }
  }
}`;
  const ASKS = 'if (!(await this.acquire(box))) return;';
  await expect(foundIn(opening('', ASKS))).resolves.toEqual([expect.stringMatching(/^refused-release /)]);
  await expect(foundIn(opening(ASKS, ''))).resolves.toEqual([]);
});

it('finds two calls of one process that work at once under the lock of the process', async () => {
  const editing = (token: string, own: string): string => `${HEAD}
const OWNER = randomUUID();
interface Shop { approve(list: string): Promise<void> }
export const prices = (redis: Redis, shop: Shop) => ({
  async override(list: string) {
    const [key, token] = ['prices:' + list, ${token}];
    if ((await redis.set(key, token, 'PX', 8000, 'NX')) !== 'OK' ${own}) throw new Error('busy');
    try {
      await shop.approve(list);
    } finally {
      await redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, key, token);
    }
  },
});`;
  const isOwn = '&& (await redis.get(key)) !== token';
  await expect(foundIn(editing('OWNER', isOwn))).resolves.toEqual([expect.stringMatching(/^lets-tasks-in /)]);
  await expect(foundIn(editing('randomUUID()', isOwn))).resolves.toEqual([]);
  await expect(foundIn(editing('randomUUID()', ''))).resolves.toEqual([]);
});

it('takes two calls of one process that read at once for readers', async () => {
  const readers = readFileSync(new URL('../test/wild/fourth/catalog-rw.mjs', import.meta.url), 'utf8');
  await expect(foundIn(readers)).resolves.toEqual([]);
});

it('finds a function that makes a new value of what it has read before it has the lock', async () => {
  const adding = (before: string, under: string, storing = STORES.plain): string => `${HEAD}
export class Stock {
  constructor(private readonly redis: Redis) {}
  async add(sku: string, delta: number) {
    const [lock, token] = ['lock:' + sku, randomUUID()];
    ${before}
    for (let i = 0; (await this.redis.set(lock, token, 'PX', 6000, 'NX')) !== 'OK'; i++) {
      if (i === 20) throw new Error('busy');
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    try {
      ${under}
      const count = Number(before) + 3;
      ${storing}
    } finally {
      await this.redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, lock, token);
    }
  }
}`;
  const reading = "const before = (await this.redis.get('stock:' + sku)) ?? '0';";
  await expect(foundIn(adding(reading, ''))).resolves.toEqual([expect.stringMatching(/^reads-before-lock /)]);
  await expect(foundIn(adding('', reading))).resolves.toEqual([]);
  await expect(foundIn(adding(reading, '', STORES.compared))).resolves.toEqual([]);
  const again = reading.replace('const before', 'const seen');
  await expect(foundIn(adding(again, reading))).resolves.toEqual([]);
});

it('finds a function that gives up while its acquisition goes on, gets the lock, and extends it', async () => {
  const redeeming = (goesOn: string): string => `${HEAD}
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
interface Store { redeem(code: string): Promise<void> }
export async function redeem(redis: Redis, store: Store, code: string) {
  const [key, token] = ['coupon:' + code, randomUUID()];
  let [isOver, timer] = [false, undefined as NodeJS.Timeout | undefined];
  const acquired = (async () => {
    while (${goesOn}) {
      if ((await redis.set(key, token, 'PX', 10_000, 'NX')) === 'OK') {
        timer = setInterval(() => redis.eval(OWN + "return redis.call('pexpire', KEYS[1], 10000)", 1, key, token).catch(() => 0), 2_500);
        return true;
      }
      await wait(200);
    }
    return false;
  })();
  if (!(await Promise.race([acquired, wait(3_000).then(() => false)]))) {
    isOver = true;
    throw new Error('busy');
  }
  await store.redeem(code).finally(() => {
    clearInterval(timer);
    return redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, key, token);
  });
}`;
  await expect(foundIn(redeeming('true'))).resolves.toContainEqual(expect.stringMatching(/^keeps-late-grant /));
  const found = await foundIn(redeeming('!isOver'));
  expect(found.filter((it) => it.startsWith('keeps-late-grant'))).toEqual([]);
});
