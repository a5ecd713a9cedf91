import { expect, it } from 'vitest';
import { audited, idsOf, idsOfModule } from './testing/audited.js';

/** A run that pays what is due, after this, under a lock of two minutes. */
const payouts = (loop: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Payouts } from './payouts';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class PayoutRun {
  constructor(private redis: Redis, private payouts: Payouts, private bank: { transfer(payout: { iban: string }): Promise<void> }) {}
  async execute(day: string): Promise<void> {
    const token = randomUUID();
    if ((await this.redis.set('payouts:' + day, token, 'PX', 120_000, 'NX')) !== 'OK') return;
    try {
      const due = await this.payouts.findDue(day);
      ${loop}
    } finally {
      await this.redis.eval(UNLOCK, 1, 'payouts:' + day, token);
    }
  }
}`;

it('finds work for each of a list of which nothing limits the length', async () => {
  const { ids, findings } = await audited(payouts('for (const one of due) await this.bank.transfer(one);'));
  expect(ids).toEqual(['work-outlasts-ttl']);
  expect(findings).toEqual([expect.stringContaining('PayoutRun.execute calls transfer for each of a list')]);
});

it.each([
  ['no more at once than are taken', 'for (const one of due.slice(0, 20)) await this.bank.transfer(one);'],
  ['all at once', 'await Promise.allSettled(due.map((one) => this.bank.transfer(one)));'],
  [
    'until the time is over',
    'const until = Date.now() + 60_000; for (const one of due) { if (Date.now() > until) break; await this.bank.transfer(one); }',
  ],
  [
    'statements of one database',
    "for (const one of due) await this.payouts.query('UPDATE payouts SET sent = true WHERE id = $1', [one.id]);",
  ],
])('lets pass %s', async (_, loop) => {
  expect(await idsOf(payouts(loop))).toEqual([]);
});

/** A consumer of a list that makes films, and looks first whether that has been done. */
const films = (under: string): string => `
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { db } from './db.mjs';
const redis = new Redis(process.env.REDIS_URL);
const blocking = redis.duplicate();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
while (true) {
  const raw = await blocking.blmove('films', 'doing', 'RIGHT', 'LEFT', 5);
  if (!raw) continue;
  const { id } = JSON.parse(raw);
  const token = randomUUID();
  if ((await redis.set('film:' + id, token, 'PX', 60_000, 'NX')) !== 'OK') continue;
  try {
    const done = await db.oneOrNone('SELECT 1 FROM films WHERE id = $1', [id]);
    if (!done) { ${under} }
    await redis.lrem('doing', 1, raw);
  } finally {
    await redis.eval(UNLOCK, 1, 'film:' + id, token);
  }
}`;

it('finds a program without a time limit that a file starts as it is loaded', async () => {
  expect(await idsOfModule(films("await once(spawn('ffmpeg', ['-i', id]), 'exit');"))).toEqual(['work-outlasts-ttl']);
  const limited = films("await once(spawn('ffmpeg', ['-i', id], { timeout: 30_000 }), 'exit');");
  expect(await idsOfModule(limited)).toEqual([]);
});

/** A consumer of a list that extends its lock while it works; a message whose work fails is tried later. */
const videos = (failed: string): string => `
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { encode } from './encode.mjs';
const redis = new Redis(process.env.REDIS_URL);
const blocking = redis.duplicate();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 45000) end return 0";
const later = (raw) => redis.multi().zadd('later', Date.now() + 60_000, raw).lrem('doing', 1, raw).exec();
async function handle(raw) {
  const key = 'video:' + JSON.parse(raw).id;
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 45_000, 'NX')) !== 'OK') return later(raw);
  const stop = new AbortController();
  let until = Date.now() + 40_000;
  const timer = setInterval(async () => {
    if (Date.now() > until) stop.abort();
    const at = Date.now();
    const kept = await redis.eval(EXTEND, 1, key, token).catch(() => null);
    if (kept === 0) stop.abort();
    if (kept === 1) until = at + 40_000;
  }, 5_000);
  try {
    await encode(raw, { signal: stop.signal });
    clearInterval(timer);
    await redis.lrem('doing', 1, raw);
    await redis.eval(UNLOCK, 1, key, token);
  } catch (error) {
    ${failed}
    await later(raw);
  }
}
while (true) {
  const raw = await blocking.blmove('videos', 'doing', 'RIGHT', 'LEFT', 5);
  if (raw) await handle(raw);
}`;

it('finds a message that is put off for ever, as the lock of its failed work is still extended', async () => {
  const { ids, findings } = await audited(videos(''), 0, 'lock.mjs');
  expect(ids).toEqual(['kept-on-error']);
  expect(findings).toEqual([expect.stringContaining('its heartbeat goes on extending it')]);
  expect(await idsOfModule(videos('clearInterval(timer);'))).toEqual([]);
});

/** A worker that asks a queue for messages as long as it runs, and pays all that is due for each. */
const worker = (due: string): string => `
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createClient } from 'redis';
const sqs = new SQSClient({});
const pool = new pg.Pool();
const redis = createClient({ url: process.env.REDIS_URL });
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function handle(message) {
  const { merchant } = JSON.parse(message.Body);
  const token = randomUUID();
  if ((await redis.set('payout:' + merchant, token, { NX: true, EX: 30 })) !== 'OK') return;
  try {
    const { rows } = await pool.query('SELECT id FROM payouts WHERE merchant = $1 AND paid_at IS NULL', [merchant]);
    for (const payout of ${due}) await fetch('https://bank/' + payout.id, { method: 'POST' });
  } finally {
    await redis.eval(UNLOCK, { keys: ['payout:' + merchant], arguments: [token] });
  }
  await sqs.send(new DeleteMessageCommand({ ReceiptHandle: message.ReceiptHandle }));
}
await redis.connect();
while (true) {
  const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ MaxNumberOfMessages: 5, WaitTimeSeconds: 20 }));
  await Promise.all(Messages.map((it) => handle(it).catch(console.error)));
}`;

it('lets a worker wait for messages of which none comes any more, and goes through the list that it reads', async () => {
  expect(await idsOfModule(worker('rows'))).toEqual(['work-outlasts-ttl']);
  expect(await idsOfModule(worker('rows.slice(0, 5)'))).toEqual([]);
});

it('finds a list of more rows than can be gone through in a TTL, also under a lock on several nodes', async () => {
  const mailing = (rows: number): string => `import Redis from 'ioredis';
import Redlock from 'redlock4';
import nodemailer from 'nodemailer';
import { Pool } from 'pg';
const nodes = ['a', 'b', 'c'].map((host) => new Redis({ host }));
const redlock = new Redlock(nodes, { retryCount: 0 });
redlock.on('clientError', () => {});
const [pool, mailer] = [new Pool(), nodemailer.createTransport({})];
export async function remind() {
  const lock = await redlock.lock('reminders', 30_000);
  try {
    const { rows } = await pool.query('SELECT id, email FROM donors WHERE reminded_at IS NULL LIMIT ${rows}');
    for (const { id, email } of rows) {
      await mailer.sendMail({ to: email });
      await pool.query('UPDATE donors SET reminded_at = now() WHERE id = $1', [id]);
    }
  } finally { await lock.unlock().catch(() => {}); }
}`;
  expect(await idsOfModule(mailing(2_000))).toEqual(['work-outlasts-ttl']);
  expect(await idsOfModule(mailing(50))).toEqual([]);
});
