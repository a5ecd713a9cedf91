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
