import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';
import type { Finding } from './result.js';

/** What plain use shows of a file; nothing is searched. */
async function findingsOf(text: string): Promise<readonly Finding[]> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  return (await auditFile({ path, runs: 0, seed: '', budgetMs: 1_000 }, () => {})).findings;
}

/** The same by name. */
const shownOf = async (text: string): Promise<string[]> => (await findingsOf(text)).map(({ id }) => id);

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Does its own work under the lock; `onError` is what it does where the lock cannot be asked for. */
function paying(onError: string, work = 'await bank.transfer(account);'): string {
  return `import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1 });
redis.on('error', () => {});
interface Bank { transfer(account: string): Promise<void>; load(account: string): Promise<number> }
async function take(key: string, token: string) {
  try {
    if ((await redis.set(key, token, 'PX', 9_000, 'NX')) !== 'OK') return null;
    return () => redis.eval(${JSON.stringify(UNLOCK)}, 1, key, token);
  } catch (error) { ${onError} }
}
export async function pay(bank: Bank, account: string) {
  const release = await take('pay:' + account, String(Math.random()));
  if (release === null) return false;
  try { ${work} } finally { await release(); }
  return true;
}`;
}

it('tells of own work that is done where the lock could not be asked for', async () => {
  expect(await shownOf(paying('return async () => {};'))).toEqual(['fails-open-on-error']);
  for (const onError of ['throw error;', 'return null;']) expect(await shownOf(paying(onError))).toEqual([]);
});

it('tells of nothing where that only looks, as for a cache', async () => {
  expect(await shownOf(paying('return async () => {};', 'await bank.load(account);'))).toEqual([]);
});

/** Says for how long it is held by the monotonic clock. */
function holding(unit: string): string {
  return `import type { Redis } from 'ioredis';
const LOCK_TTL = Number(process.env.SHOW_TTL ?? 45);
class Hold {
  constructor(private redis: Redis, private key: string, private token: string, private expiresAt: number) {}
  get secondsLeft() { return (this.expiresAt - performance.now()) / 1000; }
  free() { return this.redis.eval(${JSON.stringify(UNLOCK)}, 1, this.key, this.token); }
}
export async function hold(redis: Redis, show: string) {
  const token = String(Math.random());
  const now = performance.now();
  if ((await redis.set('show:' + show, token, '${unit}', LOCK_TTL, 'NX')) !== 'OK') return null;
  return new Hold(redis, 'show:' + show, token, now + LOCK_TTL * 1000);
}`;
}

it('takes a time by the monotonic clock for no TTL in milliseconds', async () => {
  expect(await shownOf(holding('PX'))).toEqual(['seconds-as-ms']);
  expect(await shownOf(holding('EX'))).toEqual([]);
});

/** Tries a few times for a lock, and marks what it has given away. */
function giving(afterTries: string): string {
  return `import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
interface Planner { plan(car: string): Promise<void> }
export class Giver {
  constructor(private readonly redis: Redis, private readonly planner: Planner) {}
  async give(car: string, trip: string): Promise<boolean> {
    const [key, token] = ['car:' + car + ':lock', String(Math.random())];
    let tries = 0;
    for (; tries < 5; tries++) {
      if ((await this.redis.set(key, token, 'PX', 20_000, 'NX')) === 'OK') break;
      await sleep(100);
    }
    ${afterTries}
    try {
      if (await this.redis.hget('car:' + car, 'trip')) return false;
      await this.planner.plan(car);
      await this.redis.hset('car:' + car, 'trip', trip);
      return true;
    } finally {
      await this.redis.eval(${JSON.stringify(UNLOCK)}, 1, key, token).catch(() => {});
    }
  }
}`;
}

it('tells of own work that is done by who is refused, while the first has changed no data yet', async () => {
  expect(await shownOf(giving(''))).toEqual(['fails-open']);
  expect(await shownOf(giving('if (tries === 5) return false;'))).toEqual([]);
});

it('takes no release for lost that its client gave up while it was kept back', async () => {
  const booking = (release: string): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
redis.on('error', () => {});
const redlock = new Redlock([redis], { retryCount: 0 });
export async function revalue(ledger: { book(base: string): Promise<void> }, base: string) {
  const lock = await redlock.acquire(['fx:' + base], 30_000);
  try { await ledger.book(base); } finally { ${release} }
}`;
  expect(await shownOf(booking('await lock.release().catch(() => {});'))).toEqual([]);
  const other =
    "await redis.eval(\"if redis.call('get', KEYS[1]) == 'no' then redis.call('del', KEYS[1]) end\", 1, 'fx:' + base);";
  expect(await shownOf(booking(other))).toEqual(['never-frees']);
});

it('shows that a release names a key without the prefix of its client', async () => {
  const issuing = (ask: string): string => `import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!, { keyPrefix: 'billing:', maxRetriesPerRequest: 2 });
redis.on('error', () => {});
const BY_ARGV = "if redis.call('get', ARGV[1]) == ARGV[2] then return redis.call('del', ARGV[1]) end return 0";
const BY_KEY = ${JSON.stringify(UNLOCK)};
export async function acquire(name: string) {
  const [key, token] = ['lock:' + name, String(Math.random())];
  return (await redis.set(key, token, 'PX', 20_000, 'NX')) === 'OK' ? { key, token } : null;
}
export const release = (held: { key: string; token: string }) => redis.eval(${ask}, held.key, held.token);`;
  const [{ sentence } = { sentence: '' }, ...others] = await findingsOf(issuing('BY_ARGV, 0'));
  expect(sentence).toContain('it looks at "lock:a", and its key is "billing:lock:a" (a client puts its keyPrefix');
  expect(others).toEqual([]);
  expect(await shownOf(issuing('BY_KEY, 1'))).toEqual([]);
});

it('shows that a key stays where its process dies before it gets its TTL', async () => {
  const settling = (take: string): string => `import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1 });
redis.on('error', () => {});
export async function lock(name: string) {
  const [key, token] = ['settle:' + name, String(Math.random())];
  if (!(${take})) return null;
  return { key, release: () => redis.eval(${JSON.stringify(UNLOCK)}, 1, key, token) };
}`;
  const later = '(await redis.setnx(key, token)) === 1 && (await redis.pexpire(key, 20_000)) === 1';
  expect(await shownOf(settling(later))).toEqual(['ttl-by-second-command']);
  const atOnce = '(await redis.multi().setnx(key, token).pexpire(key, 20_000, "NX").exec())![0]![1] === 1';
  expect(await shownOf(settling(atOnce))).toEqual([]);
});

it('answers requests to other servers, with a query that the file accepts', async () => {
  const route = (refused: string): string => `import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1 });
redis.on('error', () => {});
const WIDTHS = [160, 320, 640];
export async function GET(request: Request) {
  const width = Number(new URL(request.url).searchParams.get('width'));
  if (!WIDTHS.includes(width)) return new Response('no such width', { status: 400 });
  const [key, token] = ['render:' + width, String(Math.random())];
  if ((await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') { ${refused} }
  try {
    const answer = await fetch(process.env.RENDERER_URL + '/render', { method: 'POST', body: String(width) });
    if (!answer.ok) throw new Error('not rendered: ' + answer.status);
    const { path } = await answer.json();
    return new Response(String(path));
  } finally { await redis.eval(${JSON.stringify(UNLOCK)}, 1, key, token); }
}`;
  expect(await shownOf(route(''))).toEqual(['fails-open']);
  expect(await shownOf(route("return new Response('busy', { status: 202 });"))).toEqual([]);
});
