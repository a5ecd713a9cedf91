import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

/** A lock in a hash that its owner may take again, as that of Redisson; a lease is a duration of a library for times. */
const reentrant = (owner: string): string => `import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { AsyncLocalStorage } from 'node:async_hooks';
import dayjs from 'dayjs';
import duration from 'dayjs/plugin/duration';
dayjs.extend(duration);
type Duration = duration.Duration;
const LOCK = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return -1 end return redis.call('pttl', KEYS[1])";
const UNLOCK = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end local left = redis.call('hincrby', KEYS[1], ARGV[1], -1) if left <= 0 then redis.call('del', KEYS[1]) end return left";
const calls = new AsyncLocalStorage<string>();
export class ChartLock {
  private readonly me = randomUUID();
  private readonly lease: Duration;
  constructor(private readonly redis: Redis, options: { lease?: Duration } = {}) {
    this.lease = options.lease ?? dayjs.duration(30, 'seconds');
  }
  async withChart<T>(patient: string, edit: () => Promise<T>): Promise<T> {
    const owner = ${owner};
    const leaseMs = this.lease.asMilliseconds();
    for (;;) {
      if (Number(await this.redis.eval(LOCK, 1, 'chart:' + patient, owner, leaseMs)) === -1) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    try { return await calls.run(owner, edit); } finally { await this.redis.eval(UNLOCK, 1, 'chart:' + patient, owner); }
  }
}`;

it('uses a lock that answers with a number below 0 where it is granted, and takes a duration', async () => {
  expect(await idsOf(reentrant('calls.getStore() ?? randomUUID()'))).toEqual([]);
  expect(await idsOf(reentrant('this.me'))).toContain('lets-tasks-in');
});

/** A decorator of methods, whose class has a service of the same file. */
const decorator = (runs: string): string => `import { randomUUID } from 'node:crypto';
import type Redis from 'ioredis';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class LockService {
  constructor(private readonly redis: Redis) {}
  async acquire(key: string, ttlMs: number): Promise<(() => Promise<void>) | null> {
    const token = randomUUID();
    if ((await this.redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
    return async () => void (await this.redis.eval(RELEASE, 1, key, token));
  }
}
export function Locked({ key, ttlMs = 30_000 }: { key: string; ttlMs?: number }): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    descriptor.value = async function (this: { locks: LockService }, ...args: unknown[]) {
      const release = await this.locks.acquire('lock:' + key, ttlMs);
      if (!release) throw new Error('busy');
      try { ${runs} } finally { await release(); }
    };
    return descriptor;
  };
}`;

it('makes a service of the file for the methods that its decorator wraps', async () => {
  expect(await idsOf(decorator('return await method.apply(this, args);'))).toEqual([]);
  expect(await idsOf(decorator('return method.apply(this, args);'))).toEqual(['releases-early']);
});

/** A lock with a fencing token. */
const fenced = (draws: string, fence: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function lockSite(site: string): Promise<{ fence: any; release(): Promise<unknown> }> {
  const [key, token] = ['site:' + site, randomUUID()];
  if ((await redis.set(key, token, 'PX', 15_000, 'NX')) !== 'OK') throw new Error('busy');
  ${draws}
  return { fence${fence}, release: () => redis.eval(UNLOCK, 1, key, token) };
}`;

it('finds a fencing token that is drawn when it is asked for, and not with the lock', async () => {
  expect(await idsOf(fenced('', ": () => redis.incr('fence:' + site)"))).toEqual(['fencing-token']);
  expect(await idsOf(fenced("const fence = await redis.incr('fence:' + site);", ''))).toEqual([]);
});

/** A consumer whose work is handed to its constructor; a message whose work fails goes back to its queue. */
const consumer = (failed: string): string => `const amqp = require('amqplib');
class Events {
  constructor({ redis, handle, log }) { this.redis = redis; this.handle = handle; this.log = log; this.channel = null; }
  async start(url) {
    this.channel = await (await amqp.connect(url)).createChannel();
    await this.channel.consume('events', (message) => this.onMessage(message));
  }
  async claim(id) {
    return (await this.redis.set('seen:' + id, String(process.pid), { NX: true, EX: 604800 })) === 'OK';
  }
  async onMessage(message) {
    const event = JSON.parse(message.content.toString('utf8'));
    if (!(await this.claim(event.id))) { this.channel.ack(message); return; }
    try { await this.handle(event); this.channel.ack(message); }
    catch (error) {
      this.log.warn('failed', error);
      ${failed}
      this.channel.nack(message, false, true);
    }
  }
}
module.exports = { Events };`;

it('finds a message that is lost by a function that takes a key which nobody deletes', async () => {
  const { ids, findings } = await audited(consumer(''), 0, 'lock.js');
  expect(ids).toEqual(['kept-on-error']);
  expect(findings).toEqual([expect.stringContaining('redelivered')]);
  const deleted = consumer("await this.redis.del('seen:' + event.id);");
  expect((await audited(deleted, 0, 'lock.js')).ids).not.toContain('kept-on-error');
});

/** A webhook that goes on without Redis. */
const webhook = (stores: string): string => `import { Redis } from '@upstash/redis';
import { Hono } from 'hono';
import { sql } from '../db';
const redis = Redis.fromEnv();
export const app = new Hono();
app.post('/events', async (c) => {
  const { id, amount } = await c.req.json();
  try {
    if ((await redis.set('event:' + id, '1', { nx: true, ex: 90 })) !== 'OK') return c.text('in progress', 409);
  } catch (error) { console.warn('no redis', error); }
  await sql.begin(async (tx) => { ${stores} });
  return c.text('ok');
});`;

it('runs a transaction of postgres, which may add its record once', async () => {
  const once = `await tx\`insert into events (id, amount) values (\${id}, \${amount}) on conflict (id) do nothing\`;`;
  expect(await idsOf(webhook(once))).toEqual([]);
  const again = `await tx\`update accounts set credits = credits + \${amount} where id = \${id}\`;`;
  expect(await idsOf(webhook(again))).toEqual(['fails-open-on-error']);
});

/** Each run of a job is for a slot of time; its mark stays. */
const oncePerSlot = (key: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
export function OncePerSlot({ name, everyMs }: { name: string; everyMs: number }) {
  return function (_target: object, _property: string, descriptor: TypedPropertyDescriptor<(...args: any[]) => Promise<void>>) {
    const original = descriptor.value!;
    descriptor.value = async function (this: unknown, ...args: any[]): Promise<void> {
      const { redis } = this as { redis: Redis };
      const slot = Math.round(Date.now() / everyMs) * everyMs;
      if ((await redis.set(${key}, randomUUID(), 'PX', 86_400_000, 'NX')) !== 'OK') return;
      await original.apply(this, args);
    };
    return descriptor;
  };
}`;

it('takes no call of a later period for one beside that of the last one', async () => {
  expect(await idsOf(oncePerSlot("'cron:' + name + ':' + slot"))).toEqual([]);
});

/** Who reads and who writes is told by a text that one function of both is handed. */
const gate = (writer: string): string => `import { randomUUID } from 'node:crypto';
import type Redis from 'ioredis';
const READ = "if redis.call('EXISTS', KEYS[1]) > 0 then return 0 end redis.call('HSET', KEYS[2], ARGV[1], 1) redis.call('PEXPIRE', KEYS[2], ARGV[2]) return 1";
const WRITE = "if redis.call('EXISTS', ${writer}) > 0 then return 0 end redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
const UNREAD = "return redis.call('HDEL', KEYS[2], ARGV[1])";
const UNWRITE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
export class Gate {
  constructor(private readonly redis: Redis, private readonly name: string, private readonly leaseMs = 30_000) {}
  exporting<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> { return this.pass('read', fn); }
  rebuilding<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> { return this.pass('write', fn); }
  private async pass<T>(mode: 'read' | 'write', fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const token = randomUUID();
    const keys = [this.name + ':w', this.name + ':r'] as const;
    while ((await this.redis.eval(mode === 'read' ? READ : WRITE, 2, ...keys, token, this.leaseMs)) !== 1)
      await new Promise((resolve) => setTimeout(resolve, 100));
    try { return await fn(AbortSignal.timeout(this.leaseMs * 0.8)); }
    finally { await this.redis.eval(mode === 'read' ? UNREAD : UNWRITE, 2, ...keys, token).catch(() => {}); }
  }
}`;

it('knows who reads by the text that a function of both is handed', async () => {
  const right = await audited(gate('KEYS[1], KEYS[2]'));
  expect(right.understood).toContain('Gate.exporting is for those who only read');
  expect(right.ids).toEqual([]);
  expect(await idsOf(gate('KEYS[1]'))).toEqual(['writer-ignores-readers']);
});

/** A function of a cloud, that says of which messages the work has failed. */
const points = (failed: string): string => `import Redis from 'ioredis';
import { Pool } from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool();
export const handler = async (event: { Records: { messageId: string; body: string }[] }) => {
  const batchItemFailures: { itemIdentifier: string }[] = [];
  for (const { messageId, body } of event.Records) {
    if ((await redis.set('seen:' + messageId, '1', 'EX', 345_600, 'NX')) !== 'OK') continue;
    try {
      const { customer, cents } = JSON.parse(body);
      await pool.query('UPDATE accounts SET points = points + $2 WHERE customer = $1', [customer, cents]);
    } catch {
      ${failed}
      batchItemFailures.push({ itemIdentifier: messageId });
    }
  }
  return { batchItemFailures };
};`;

it('finds a message of a batch that is lost when its work fails', async () => {
  expect(await idsOf(points(''))).toEqual(['kept-on-error']);
  expect(await idsOf(points("await redis.del('seen:' + messageId);"))).not.toContain('kept-on-error');
});

/** A consumer of Kafka that asks its bank for one page after the other. */
const sync = (looks: string): string => `const { Kafka } = require('kafkajs');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const bank = require('./bank-client');
const db = require('../db');
const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 30, retryDelay: 300 });
const consumer = new Kafka({ clientId: 'sync', brokers: process.env.KAFKA_BROKERS.split(',') }).consumer({ groupId: 'sync' });
async function pages(account, heartbeat) {
  const until = Date.now() + 3_000;
  for (let after; ; ) {
    const page = await bank.listTransactions(account, { after });
    for (const it of page.items) await db.transactions.insert({ account, amount: it.amount });
    await heartbeat();
    after = page.cursor;
    ${looks}
    if (!page.hasMore) break;
  }
}
async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: ['accounts'] });
  await consumer.run({ eachMessage: async ({ message, heartbeat }) => {
    const { account } = JSON.parse(message.value.toString());
    const lock = await redlock.lock('sync:' + account, 5_000);
    try { await pages(account, heartbeat); } finally { await lock.unlock().catch(() => {}); }
  } });
}
main().catch(() => process.exit(1));`;

it('finds a consumer that asks for pages as long as there are more', async () => {
  const { ids, findings } = await audited(sync(''), 0, 'lock.cjs');
  expect(ids).toEqual(['work-outlasts-ttl']);
  expect(findings).toEqual([expect.stringContaining('transactions.insert')]);
  expect((await audited(sync('if (Date.now() > until) break;'), 0, 'lock.cjs')).ids).toEqual([]);
});

/** A lock whose value says when it is over; a stale one is taken over. */
const stale = (takesOver: string): string => `import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const SWAP = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0";
const value = () => crypto.randomUUID() + '|' + (Date.now() + 120_000);
export async function acquire(key: string): Promise<string | null> {
  const mine = value();
  if ((await redis.setnx(key, mine)) === 1) return mine;
  const current = await redis.get(key);
  if (current === null || Date.now() < Number(current.split('|')[1]) + 10_000) return null;
  ${takesOver}
}
export async function release(key: string, held: string): Promise<void> {
  await redis.eval(UNLOCK, 1, key, held);
}`;

it('finds a stale lock that two processes take over at once', async () => {
  expect(await idsOf(stale('await redis.set(key, mine); return mine;'))).toContain('check-then-set');
  const swaps = 'return (await redis.eval(SWAP, 1, key, current, mine)) === 1 ? mine : null;';
  expect(await idsOf(stale(swaps))).toEqual([]);
});

/** Seats that a cart holds: who holds them is said by who asks. */
const seats = (drops: string): string => `const { redis } = require('./db');
redis.defineCommand('holdSeat', { numberOfKeys: 1, lua: "local owner = redis.call('GET', KEYS[1]) if owner and owner ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1" });
redis.defineCommand('dropSeat', { numberOfKeys: 1, lua: "${drops}" });
const hold = async (seat, cartId) => (await redis.holdSeat('seat:' + seat, 'cart:' + cartId, 600_000)) === 1;
const abandon = (seat, cartId) => redis.dropSeat('seat:' + seat, 'cart:' + cartId);
module.exports = { hold, abandon };`;

it('gives each caller an id of its own, where that is what the lock stores, and a client in the place of one of a missing file', async () => {
  const own = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
  expect((await audited(seats(own), 60, 'lock.cjs')).ids).toEqual([]);
  expect((await audited(seats("return redis.call('DEL', KEYS[1])"), 60, 'lock.cjs')).ids).toEqual(['deletes-others']);
});

/** What is read at once under a lock, and what is done with each. */
const bundle = (each: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function load(redis: Redis, bucket: Bucket, name: string): Promise<unknown> {
  const [key, token] = ['bundle:' + name, randomUUID()];
  if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    const { files } = JSON.parse(await bucket.getText('manifest.json'));
    return await Promise.all(files.slice(0, 20).map(async (file: string) => ${each}));
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it('lets a lock be released while something is still read, and not while that is still stored', async () => {
  expect(await idsOf(bundle('bucket.getText(file)'))).toEqual([]);
  expect(await idsOf(bundle('bucket.copy(file)'))).toEqual(['releases-early']);
  expect(await idsOf(bundle("bucket.put('of/' + file, await bucket.getText(file))"))).toEqual(['releases-early']);
});

/** A worker that encodes what it gets from a list, and extends its lock meanwhile. */
const encoder = (beats: string): string => `import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const blocking = redis.duplicate();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
for (;;) {
  const next = await blocking.blpop('videos', 0);
  if (next === null) continue;
  const [key, id] = ['encode:' + next[1], randomUUID()];
  if ((await redis.set(key, id, 'PX', 20_000, 'NX')) !== 'OK') continue;
  const child = spawn('ffmpeg', ['-i', next[1], next[1] + '.mp4']);
  const beat = setInterval(() => void ${beats}.catch(() => {}), 5_000);
  try { await once(child, 'exit'); } finally {
    clearInterval(beat);
    await redis.eval(UNLOCK, 1, key, id);
  }
}`;

it('finds a worker that extends the lock of another one that got the same message', async () => {
  expect(await idsOf(encoder('redis.pexpire(key, 20_000)'))).toContain('blind-extension');
  const own = 'redis.eval(EXTEND, 1, key, id, 20_000).then((it) => it === 1 || child.kill())';
  expect(await idsOf(encoder(own))).not.toContain('blind-extension');
});

/** A class whose methods run under a lock of it; \`quit\` leaves a lobby, and releases nothing. */
const lobby = (kept: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Lobby {
  private token = '';
  private readonly tokens = new Map<string, string>();
  constructor(private readonly redis: Redis) {}
  async enter(key: string, ttlMs: number): Promise<void> {
    const token = randomUUID();
    if (${kept === 'token'}) this.token = token;
    if ((await this.redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('locked');
    this.tokens.set(key, token);
  }
  async leave(key: string): Promise<void> { await this.redis.eval(UNLOCK, 1, key, this.${kept}); }
  async quit(region: string, player: string): Promise<boolean> {
    return (await this.redis.lrem('lobby:' + region, 1, player)) > 0;
  }
}`;

it('takes the opposite of what acquires for what releases', async () => {
  expect(await idsOf(lobby("tokens.get(key) ?? ''"))).toEqual([]);
  expect(await idsOf(lobby('token'))).toEqual(['shared-state']);
});

/** Bids that are placed by WATCH: in a hash, over the one connection of the process. */
const bids = (connection: string): string => `import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
export async function placeBid(auction: string, bidder: string, cents: number): Promise<boolean> {
  const [own, key] = [${connection}, 'auction:' + auction];
  await own.watch(key);
  const now = await own.hgetall(key);
  if (now.state !== 'open' || cents <= Number(now.highest ?? 0)) { await own.unwatch(); return false; }
  return (await own.multi().hset(key, { highest: String(cents), bidder }).exec()) !== null;
}`;

it('finds updates of a hash that are lost over a shared connection, where nobody holds a lock', async () => {
  expect(await idsOf(bids('redis'))).toEqual(['shared-watch']);
  expect(await idsOf(bids('redis.duplicate()'))).toEqual([]);
});
