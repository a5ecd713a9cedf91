import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** A job that runs its work under a lock that is right by itself. */
const job = (work: string): string => `
import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { Redis } from 'ioredis';
import { db } from './db.ts';
import { mailer } from './mailer.ts';
const redis = new Redis(process.env.REDIS_URL!);
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function withLock<T>(key: string, ttlMs: number, work: () => Promise<T>): Promise<T | null> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  try {
    return await work();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch(() => undefined);
  }
}
async function remind(id: string): Promise<void> {
  await mailer.send(id);
  await db('invoices').where({ id }).update({ reminded: true });
}
async function run(): Promise<void> {
  await withLock('reminders', 600_000, async () => {
    const overdue = await db('invoices').where({ reminded: false }).limit(100);
    ${work}
  });
}
cron.schedule('*/10 * * * *', () => run());`;

it('finds work that a job of the file does not await under a lock that is right', async () => {
  expect(await idsOf(job('overdue.forEach(async ({ id }) => { await remind(id); });'))).toEqual(['releases-early']);
  expect(await idsOf(job('for (const { id } of overdue) await remind(id);'))).toEqual([]);
});

const webhook = (failed: string): string => `
import { Hono } from 'hono';
import { Redis } from '@upstash/redis';
import { db } from './db';
const redis = new Redis({ url: process.env.UPSTASH_REDIS_REST_URL!, token: process.env.UPSTASH_REDIS_REST_TOKEN! });
export async function once(id: string, fn: () => Promise<void>): Promise<boolean> {
  const first = await redis.set('event:' + id, new Date().toISOString(), { nx: true, ex: 604_800 });
  if (first !== 'OK') return false;
  ${failed}
  return true;
}
export const app = new Hono();
app.post('/webhooks', async (c) => {
  const { id, customer, amount } = await c.req.json();
  return c.json({ duplicate: !(await once(id, () => db.credits.add(customer, amount))) });
});`;

it('finds a mark that stays where the handler of a webhook throws', async () => {
  expect(await idsOf(webhook('await fn();'))).toEqual(['kept-on-error']);
  const undone = "try { await fn(); } catch (error) { await redis.del('event:' + id); throw error; }";
  expect(await idsOf(webhook(undone))).not.toContain('kept-on-error');
});

const catalog = (looks: string): string => `
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { MongoClient } from 'mongodb';
const redis = new Redis(process.env.REDIS_URL!);
const titles = () => new MongoClient(process.env.MONGO_URL!).db('catalog').collection('titles');
const NOW = "local t = redis.call('time') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
const SCRIPTS = {
  read: NOW + "if ${looks} then return 0 end redis.call('zremrangebyscore', KEYS[2], '-inf', now) redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1]) redis.call('pexpire', KEYS[2], ARGV[2]) return 1",
  write: NOW + "redis.call('zremrangebyscore', KEYS[2], '-inf', now) if redis.call('zcard', KEYS[2]) > 0 then return 0 end if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0",
  endRead: "return redis.call('zrem', KEYS[2], ARGV[1])",
  endWrite: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
};
async function withAccess<T>(mode: 'read' | 'write', market: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const keys = ['catalog:' + market + ':writer', 'catalog:' + market + ':readers'];
  const token = randomUUID();
  while ((await redis.eval(SCRIPTS[mode], 2, ...keys, token, 60_000)) !== 1) await new Promise((next) => setTimeout(next, 200));
  try {
    return await work(AbortSignal.timeout(45_000));
  } finally {
    await redis.eval(mode === 'read' ? SCRIPTS.endRead : SCRIPTS.endWrite, 2, ...keys, token).catch(() => undefined);
  }
}
export async function publish(market: string, next: { _id: string }[]): Promise<void> {
  await withAccess('write', market, async (signal) => {
    signal.throwIfAborted();
    await titles().bulkWrite(next.map((title) => ({ replaceOne: { filter: { _id: title._id }, replacement: title } })));
  });
}
export async function snapshot(market: string): Promise<unknown[]> {
  return withAccess('read', market, () => titles().find({ market }).toArray());
}`;

it('finds readers that do not see a writer, though the file exports none of their lock', async () => {
  expect(await idsOf(catalog("redis.call('exists', KEYS[1]) == '1'"))).toEqual(['reader-ignores-writer']);
  expect(await idsOf(catalog("redis.call('exists', KEYS[1]) == 1"))).toEqual([]);
});

it('finds a job of once a day that sends a mail and leaves nothing that says so, though another function of the file takes its lock', async () => {
  const daily = (work: string): string => `
import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { Redis } from 'ioredis';
import { mailer } from './mailer';
const redis = new Redis(process.env.REDIS_URL!);
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function onOneServer(name: string, work: () => Promise<void>): Promise<boolean> {
  const token = randomUUID();
  if ((await redis.set('cron:' + name, token, 'PX', 600_000, 'NX')) !== 'OK') return false;
  try {
    await work();
    return true;
  } finally {
    await redis.eval(RELEASE, 1, 'cron:' + name, token);
  }
}
export function schedule(): void {
  cron.schedule('0 5 * * *', () => onOneServer('report', async () => { ${work} }));
}`;
  expect(await idsOf(daily('await mailer.sendMail({ subject: "Report" });'))).toEqual(['guard-released']);
  expect(await idsOf(daily('await mailer.refresh();'))).toEqual([]);
});
