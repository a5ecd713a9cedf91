import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;

/** Counts a coupon in Redis itself, whose record has a limit. */
const coupon = (returned: string): string => `${HEAD}
async function count(redis: Redis, code: string): Promise<string> {
  const coupon = await redis.hgetall('coupon:' + code);
  if (!coupon.limit) return 'unknown';
  if (Number(coupon.used ?? 0) >= Number(coupon.limit)) return 'used up';
  await redis.hset('coupon:' + code, 'used', Number(coupon.used ?? 0) + 1);
  return 'redeemed';
}
export async function redeem(redis: Redis, code: string): Promise<string> {
  const [key, token] = ['lock:coupon:' + code, randomUUID()];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
  try { ${returned} } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it.each([
  ['return count(redis, code);', ['releases-early']],
  ['return await count(redis, code);', []],
])('reads records that have limits: %s', async (returned, ids) => {
  expect(await idsOf(coupon(returned))).toEqual(ids);
});

/** Folds a list of events under a time limit that is longer than a part of its work usually takes. */
const rollup = (limited: string): string => `${HEAD}
interface Prices { of(events: string[], signal?: AbortSignal): Promise<number> }
export async function fold(redis: Redis, prices: Prices, tenant: string): Promise<void> {
  const [key, token] = ['lock:fold:' + tenant, randomUUID()];
  if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') return;
  const controller = new AbortController();
  const work = async () => {
    let at = Number((await redis.get('cursor:' + tenant)) ?? 0);
    for (;;) {
      const events = await redis.lrange('events:' + tenant, at, at + 99);
      if (events.length === 0) return;
      const cents = await prices.of(events, controller.signal);
      controller.signal.throwIfAborted();
      at += events.length;
      await redis.multi().hincrby('bill:' + tenant, 'cents', cents).set('cursor:' + tenant, at).exec();
    }
  };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => { timer = setTimeout(() => { ${limited} reject(new Error('late')); }, 45_000); });
  try { await Promise.race([work(), late]); } finally { clearTimeout(timer); await redis.eval(UNLOCK, 1, key, token); }
}`;

it('finds that work goes on when its time limit is over', async () => {
  expect(await idsOf(rollup('').replace(', controller.signal)', ')'))).toEqual(['releases-early']);
});

it('lets pass one that stops its work', async () => {
  expect(await idsOf(rollup('controller.abort();'))).toEqual([]);
});

/** Imports a feed for as long as that takes, and extends its lock. */
const feed = (extension: string): string => `${HEAD}
interface Table { upsert(rows: string[]): Promise<void>; clean(): Promise<void> }
export async function importFeed(redis: Redis, table: Table, feedUrl: string): Promise<void> {
  const [key, token] = ['lock:' + feedUrl, randomUUID()];
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;
  const lost = new AbortController();
  const timer = setInterval(() => {
    ${extension}.then((it) => { if (it !== 1 && it !== 'OK') lost.abort(); }, () => lost.abort());
  }, 10_000);
  try {
    const answer = await fetch(feedUrl, { signal: lost.signal });
    if (!answer.ok) throw new Error('no feed');
    const rows = (await answer.text()).split(';');
    lost.signal.throwIfAborted();
    await table.upsert(rows);
    lost.signal.throwIfAborted();
    await table.clean();
  } finally { clearInterval(timer); await redis.eval(UNLOCK, 1, key, token); }
}`;

const COMPARES = `"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 30000) end return 0"`;

it.each([
  ["redis.set(key, token, 'PX', 30_000, 'XX')", ['blind-extension']],
  [`redis.eval(${COMPARES}, 1, key, token)`, []],
])('judges how its own work keeps its lock: %s', async (extension, ids) => {
  expect(await idsOf(feed(extension))).toEqual(ids);
});

/** Exchanges a token that can be used once; several calls come at once, and wait. */
const session = (inside: string): string => `${HEAD}
interface Session { refreshToken: string; expiresAt: number }
interface Provider { exchange(token: string): Promise<string> }
export async function live(redis: Redis, provider: Provider, sid: string): Promise<string> {
  const load = async () => JSON.parse((await redis.get('session:' + sid)) ?? 'null') as Session | null;
  let session = await load();
  if (session === null) return 'signed out';
  if (session.expiresAt > Date.now()) return session.refreshToken;
  const [key, token] = ['lock:session:' + sid, randomUUID()];
  while ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') await new Promise((done) => setTimeout(done, 50));
  try {
    ${inside}
    const fresh = String(await provider.exchange(session!.refreshToken));
    await redis.set('session:' + sid, JSON.stringify({ refreshToken: fresh, expiresAt: Date.now() + 60_000 }), 'XX');
    return fresh;
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it.each([
  ['', ['reads-before-lock']],
  ['session = await load(); if (session!.expiresAt > Date.now()) return session!.refreshToken;', []],
])('knows whether what was read before the wait is read again: %s', async (inside, ids) => {
  expect(await idsOf(session(inside))).toEqual(ids);
});

/** The TTL that a name of the environment says. */
const named = (option: string): string => `${HEAD}
const ttl = Number(process.env.IMPORT_LOCK_SECONDS ?? 240);
export async function locked(redis: Redis, name: string, work: () => Promise<void>): Promise<void> {
  const token = randomUUID();
  if ((await redis.set('lock:' + name, token, '${option}', ttl, 'NX')) !== 'OK') return;
  try { await work(); } finally { await redis.eval(UNLOCK, 1, 'lock:' + name, token); }
}`;

it.each([
  ['PX', ['seconds-as-ms']],
  ['EX', []],
])('knows the unit of a default by the name of its variable: %s', async (option, ids) => {
  expect(await idsOf(named(option))).toEqual(ids);
});

/** Work of several TTLs, and a timer that extends the lock. */
const solving = (timer: string): string => `${HEAD}
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 9000) end return 0";
interface Solver { match(region: string, signal: AbortSignal): Promise<string>; assign(plan: string, signal: AbortSignal): Promise<void> }
export async function dispatch(redis: Redis, solver: Solver, region: string): Promise<void> {
  const [key, token] = ['dispatch:' + region, randomUUID()];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') return;
  const lost = new AbortController();
  const timer = ${timer}(() => { redis.eval(EXTEND, 1, key, token).then((it) => { if (it !== 1) lost.abort(); }, () => lost.abort()); }, 3000);
  try {
    const plan = await solver.match(region, lost.signal);
    lost.signal.throwIfAborted();
    await solver.assign(plan, lost.signal);
  } finally { clearInterval(timer); await redis.eval(UNLOCK, 1, key, token); }
}`;

it.each([
  ['setTimeout', ['stops-extending']],
  ['setInterval', []],
])('knows whether a lock is extended for as long as its work takes: by %s', async (timer, ids) => {
  expect(await idsOf(solving(timer))).toEqual(ids);
});

/** Calls of a few seconds, and a timer that extends the lock of `redlock` that is `kept`. */
const firing = (kept: string, extend: string, locks: string = 'redlock'): string => `import { Redis } from 'ioredis';
import axios from 'axios';
import Redlock from 'redlock5';
const redlock = new Redlock([new Redis(process.env.REDIS_URL!)], { retryCount: 0 });
export async function fire(kiln: string): Promise<void> {
  const locks = { acquire: async (names: string[], ms: number) => {
    let own = await redlock.acquire(names, ms);
    return { extend: async (forMs: number) => { own = await own.extend(forMs); }, release: () => own.release() };
  } };
  ${kept} lock = await ${locks}.acquire(['kiln:' + kiln], 30_000);
  const timer = setInterval(async () => { try { ${extend} } catch (error) { console.warn(error); } }, 10_000);
  try {
    await axios.post('https://kilns.example/' + kiln, {}, { timeout: 5_000, signal: AbortSignal.timeout(5_000) });
  } finally { clearInterval(timer); await lock.release(); }
}`;

it.each([
  ['is extended again', 'const', 'await lock.extend(30_000);', ['stops-extending']],
  ['is replaced by what its extension gives', 'let', 'lock = await lock.extend(30_000);', []],
  ['is in an object that keeps its extensions', 'const', 'await lock.extend(30_000);', [], 'locks'],
])('tells whether a lock of redlock 5 %s', async (_, kept, extend, ids, locks?) => {
  const found = await idsOf(firing(kept, extend, locks));
  expect(found.filter((it) => it === 'stops-extending')).toEqual(ids);
});

/** Work that is handed over, and begun before it is known whether it is awaited. */
it.each([
  ['return work();', ['releases-early']],
  ['return await work();', []],
])('tells why its own key has gone: %s', async (returned, ids) => {
  const text = `${HEAD}
export async function withLock<T>(redis: Redis, name: string, work: () => Promise<T>): Promise<T> {
  const [key, token] = ['lock:' + name, randomUUID()];
  if ((await redis.set(key, token, 'PX', 120_000, 'NX')) !== 'OK') throw new Error('busy');
  try { ${returned} } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
  expect(await idsOf(text, 12)).toEqual(ids);
});

/** Two accounts at once on three nodes, whose clients give commands up before work of seconds is over. */
it.each([
  [
    'for (const it of orders) { await store.open(it); if (signal.aborted) throw signal.error; await store.move(it, into); }',
    [],
  ],
  ['orders.forEach(async (it) => { await store.open(it); await store.move(it, into); });', ['releases-early']],
])('releases on several nodes when its work is over: %s', async (moves, ids) => {
  const text = `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
const urls = (process.env.REDLOCK_URLS ?? 'redis://a:6379,redis://b:6379,redis://c:6379').split(',');
const redlock = new Redlock(urls.map((it) => new Redis(it, { commandTimeout: 500 })), { retryCount: 5, retryDelay: 250 });
redlock.on('error', () => {});
interface Store { orders(of: string): Promise<string[]>; open(order: string): Promise<void>; move(order: string, into: string): Promise<void> }
export async function merge(store: Store, from: string, into: string): Promise<void> {
  if (from === into) throw new RangeError('one account');
  await redlock.using([from, into].sort(), 15_000, async (signal) => {
    const orders = await store.orders(from);
    if (signal.aborted) throw signal.error;
    ${moves}
  });
}`;
  expect(await idsOf(text, 62)).toEqual(ids);
});

/** A lock of one's own that does as redlock, and looks at no time that is left. */
it('excuses no pause before the work in a lock that is not redlock', async () => {
  const text = `${HEAD}
import { Redis as Client } from 'ioredis';
const nodes = [1, 2, 3].map((n) => new Client('redis://lock' + n + ':6379', { commandTimeout: 500 }));
class Quorum {
  async using(key: string, ms: number, work: () => Promise<void>): Promise<void> {
    const token = randomUUID();
    const said = await Promise.all(nodes.map((it) => it.set(key, token, 'PX', ms, 'NX').catch(() => null)));
    if (said.filter((it) => it === 'OK').length < 2) { await this.free(key, token); throw new Error('busy'); }
    try { await work(); } finally { await this.free(key, token); }
  }
  private async free(key: string, token: string): Promise<void> {
    await Promise.all(nodes.map((it) => it.eval(UNLOCK, 1, key, token).catch(() => {})));
  }
}
const quorum = new Quorum();
interface Store { move(order: string): Promise<void> }
export async function settle(store: Store, order: string): Promise<void> {
  await quorum.using('order:' + order, 15_000, () => store.move(order));
}`;
  expect(await idsOf(text, 62)).toContain('over-when-given');
  expect(await idsOf(`// The unique token is idempotent.\n${text}`, 62)).toContain('over-when-given');
});

/** A job that is handed what loads its data, and works through a queue of its own. */
const thumbnails = (waits: string): string => `${HEAD}
import PQueue from 'p-queue';
import { S3Client, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
const s3 = new S3Client({});
interface Album { id: string; pictures: string[] }
async function render(Key: string): Promise<void> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: 'b', Key }));
  await s3.send(new PutObjectCommand({ Bucket: 'thumbnails', Key, Body }));
}
async function renderAll(album: Album): Promise<void> {
  const queue = new PQueue({ concurrency: 8 });
  for (const picture of album.pictures)
    queue.add(() => render(picture)).catch((err) => console.warn(err));
  ${waits}
}
export async function refresh(redis: Redis, loadAlbum: (id: string) => Promise<Album>, id: string): Promise<boolean> {
  const [key, token] = ['album:' + id, randomUUID()];
  if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') return false;
  try {
    await renderAll(await loadAlbum(id));
    await redis.hset('state:' + id, { finishedAt: Date.now() });
    return true;
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it.each([
  ['await queue.onEmpty();', ['releases-early']],
  ['await queue.onIdle();', []],
])('waits until a queue of its own has done all, where it is handed what loads its data: %s', async (waits, ids) => {
  const { ids: found, understood } = await audited(thumbnails(waits));
  expect(understood).toContain('runs work under the lock');
  expect(found).toEqual(ids);
});

/** A decorator that injects a client into the class of its method, and reads that of `this`. */
const injecting = (returned: string): string => `${HEAD}
import { ConflictException, Inject } from '@nestjs/common';
export const REDIS = Symbol('REDIS');
export function Exclusive(key: (...args: any[]) => string, ttlMs: number): MethodDecorator {
  const inject = Inject(REDIS);
  return (target: any, _name, descriptor: PropertyDescriptor) => {
    inject(target, '__redis');
    const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    descriptor.value = async function (this: any, ...args: unknown[]) {
      const redis = this.__redis as Redis;
      const [name, token] = ['exclusive:' + key(...args), randomUUID()];
      if ((await redis.set(name, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new ConflictException('busy');
      try { ${returned} } finally { await redis.eval(UNLOCK, 1, name, token); }
    };
    return descriptor;
  };
}`;

/** The same with a service of the file, by another name of \`this\`. */
const serving = (returned: string): string => `${HEAD}
export class LockService {
  constructor(private readonly redis: Redis) {}
  async take(name: string, ttlMs: number): Promise<string | null> {
    const token = randomUUID();
    return (await this.redis.set(name, token, 'PX', ttlMs, 'NX')) === 'OK' ? token : null;
  }
  async give(name: string, token: string): Promise<void> { await this.redis.eval(UNLOCK, 1, name, token); }
}
export const Locked = (prefix: string, ttlMs: number) => (_: object, name: string, descriptor: PropertyDescriptor): void => {
  const original = descriptor.value;
  descriptor.value = async function (...args: unknown[]) {
    const self = this as { lockService: LockService; logger: { warn(it: string): void } };
    const key = prefix + ':' + String(args[0]);
    const token = await self.lockService.take(key, ttlMs);
    if (token === null) { self.logger.warn('busy'); throw new Error('busy'); }
    try { ${returned} } finally { await self.lockService.give(key, token); }
  };
};`;

/** A class of the same file whose method is decorated. */
const APPLIED = `
export class Tenants {
  constructor(private readonly tenants: TenantRepository) {}
  @Exclusive((tenantId: string) => 'reindex:' + tenantId, 120_000)
  async reindex(tenantId: string): Promise<void> { await this.tenants.rebuild(tenantId); }
}`;

const HASTY = 'return original.apply(this, args);';
const WAITS = 'return await original.apply(this, args);';

it.each([
  [injecting, '', 'Exclusive (lock.ts:7) runs work under the lock', '"exclusive:a"'],
  [injecting, APPLIED, 'Tenants.reindex (lock.ts:23) does its own work', '"exclusive:reindex:a"'],
  [serving, '', 'Locked (lock.ts:13) runs work under the lock', 'its key is'],
])('gives a decorated method what is injected into its class: case %#', async (text, besides, used, key) => {
  const hasty = await audited(text(HASTY) + besides);
  expect(hasty.ids).toEqual(['releases-early']);
  expect(hasty.understood).toContain(used);
  expect(hasty.understood).toContain(key);
  expect((await audited(text(WAITS) + besides)).ids).toEqual([]);
});

/** A heartbeat of its own class, which has the lock of `redlock` in a field. */
const beating = (field: string, extend: string): string => `import { Redis } from 'ioredis';
import Redlock, { type Lock } from 'redlock5';
export const redlock = new Redlock([new Redis(process.env.REDIS_URL!)], { retryCount: 0 });
class Heartbeat {
  private timer?: NodeJS.Timeout;
  readonly lost = new AbortController();
  constructor(private ${field}: Lock) {}
  start() { this.timer = setInterval(async () => { try { ${extend} } catch (error) { this.lost.abort(error); } }, 10_000); return this; }
  async stop() { clearInterval(this.timer); await this.lock.release(); }
}
export interface Feed { pages(signal: AbortSignal): Promise<string[]> }
export async function load(feed: Feed, id: string): Promise<string[]> {
  const beat = new Heartbeat(await redlock.acquire(['feed:' + id], 30_000)).start();
  try { return await feed.pages(beat.lost.signal); } finally { await beat.stop(); }
}`;

it.each([
  ['that nothing replaces', 'readonly lock', 'await this.lock.extend(30_000);', ['stops-extending']],
  ['that each extension replaces', 'lock', 'this.lock = await this.lock.extend(30_000);', []],
])('tells of a lock of redlock 5 in a field %s', async (_, field, extend, ids) => {
  const found = await idsOf(beating(field, extend));
  expect(found.filter((it) => it === 'stops-extending')).toEqual(ids);
});

/** A place in a sorted set that a timer keeps. */
const keeping = (keep: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const NOW = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
const TAKE = NOW + "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1]) return 1";
const KEEP = NOW + ${keep};
export class Seats {
  constructor(private readonly redis: Redis, private readonly limit: number, private readonly leaseMs = 60_000) {}
  async withSeat<T>(shutdown: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const seat = randomUUID();
    const lost = new AbortController();
    for (;;) {
      shutdown.throwIfAborted();
      if ((await this.redis.eval(TAKE, 1, 'seats', seat, this.limit, this.leaseMs)) === 1) break;
      await new Promise((done) => setTimeout(done, 500));
    }
    const beat = setInterval(() => {
      this.redis.eval(KEEP, 1, 'seats', seat, this.leaseMs).then((kept) => { if (kept !== 1) lost.abort(); }, () => lost.abort());
    }, this.leaseMs / 6);
    try { return await work(AbortSignal.any([shutdown, lost.signal])); }
    finally { clearInterval(beat); await this.redis.zrem('seats', seat); }
  }
}`;

const ADDS = `"redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1]) return 1"`;

it.each([
  ['whether or not it is there', ADDS, ['revives-lock']],
  ['where it is there', `"if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end " + ${ADDS}`, []],
])('sees that a timer sets an entry again, %s', async (_, keep, ids) => {
  const found = await idsOf(keeping(keep));
  expect(found.filter((it) => it === 'revives-lock')).toEqual(ids);
});
