import { expect, it } from 'vitest';
import { idsOf, idsOfModule } from './testing/audited.js';

const UNLOCK = `const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";`;

/** An event that is handled without its lock, too; `adds` adds its record. */
const gifts = (adds: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Knex } from 'knex';
${UNLOCK}
export class Gifts {
  constructor(private readonly redis: Redis, private readonly knex: Knex) {}
  async handle(event: { id: string; campaign: string; cents: number }): Promise<void> {
    const [key, token] = ['gift:' + event.id, randomUUID()];
    try {
      if ((await this.redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;
    } catch (error) { console.warn('no redis', error); }
    try {
      await this.knex.transaction(async (trx) => {
        const added = await trx('events').insert({ id: event.id })${adds};
        if (!added.length) return;
        await trx('campaigns').where({ id: event.campaign }).increment('cents', event.cents);
      });
    } finally { await this.redis.eval(UNLOCK, 1, key, token).catch(() => {}); }
  }
}`;

it('lets work without a lock that adds a record first, in the same transaction', async () => {
  expect(await idsOf(gifts(".onConflict('id').ignore().returning('id')"))).toEqual([]);
  expect(await idsOf(gifts(".returning('id')"))).toEqual(['fails-open-on-error']);
});

/** A report of each morning, under a key that stays there, or does not. */
const report = (after: string): string => `const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');
const { randomUUID } = require('crypto');
const mailer = require('./mailer');
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool();
${UNLOCK}
async function report() {
  const { rows } = await pool.query('select name, celsius from rooms');
  await mailer.send({ to: process.env.CHIEF, text: rows.map((it) => it.name).join() });
}
cron.schedule('0 6 * * *', async () => {
  const token = randomUUID();
  if ((await redis.set('cron:report', token, 'PX', 600_000, 'NX')) !== 'OK') return;
  try { await report(); } finally { ${after} }
});`;

it('takes what is sent by a module that is not there for something that is sent again', async () => {
  expect(await idsOfModule(report("await redis.eval(UNLOCK, 1, 'cron:report', token);"))).toEqual(['guard-released']);
  expect(await idsOfModule(report(''))).toEqual([]);
});

/** Pays back once for each key of a request; `options` are those of the payment. */
const refunds = (options: string): string => `const express = require('express');
const Redis = require('ioredis');
const Stripe = require('stripe');
const { Pool } = require('pg');
const stripe = new Stripe(process.env.STRIPE_KEY);
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool();
const app = express();
app.post('/orders/:order/refunds', async (req, res) => {
  const key = 'refund:' + req.params.order;
  if ((await redis.set(key, 'pending', 'EX', 86_400, 'NX')) !== 'OK') return res.status(409).json({ error: 'in progress' });
  try {
    const refund = await stripe.refunds.create({ payment_intent: req.body.intent, amount: 500 }${options});
    await pool.query('INSERT INTO refunds (id) VALUES ($1) ON CONFLICT DO NOTHING', [refund.id]);
    await redis.set(key, JSON.stringify({ id: refund.id }), 'EX', 86_400);
    return res.json({ id: refund.id });
  } catch (error) {
    console.error(error.message);
    await redis.del(key).catch(() => {});
    return res.status(502).json({ error: 'try again' });
  }
});
app.listen(4000);`;

it('finds a guard that is removed after a payment that the retry makes again', async () => {
  expect(await idsOfModule(refunds(''))).toEqual(['pays-again']);
  expect(await idsOfModule(refunds(', { idempotencyKey: key }'))).toEqual([]);
  expect(await idsOfModule(refunds(", { idempotencyKey: key + ':' + req.body.attempt }"))).toEqual(['pays-again']);
});

/** Wakes those that wait by a message, over a connection of its own; `waits` is how long they wait at most. */
const woken = (waits: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) redis.call('publish', 'free', '1') return 1 end return 0";
export class Waiting {
  private readonly waiters = new Set<() => void>();
  private constructor(private readonly redis: Redis) {}
  static async create({ redis, subscriber }: { redis: Redis; subscriber: Redis }): Promise<Waiting> {
    const lock = new Waiting(redis);
    subscriber.on('message', () => { for (const wake of lock.waiters) wake(); });
    await subscriber.subscribe('free');
    return lock;
  }
  async run<T>(name: string, ttlMs: number, work: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    while ((await this.redis.set(name, token, 'PX', ttlMs, 'NX')) !== 'OK')
      await new Promise<void>((resolve) => { this.waiters.add(resolve); ${waits} });
    try { return await work(); } finally { await this.redis.eval(UNLOCK, 1, name, token); }
  }
}`;

it('lets the holder die for whom others wait, and hands a subscriber a connection of its own', async () => {
  expect(await idsOf(woken(''))).toEqual(['waits-for-message']);
  expect(await idsOf(woken('setTimeout(resolve, 250);'))).toEqual([]);
});

/** A lease that is asked how much time is left, and a function that works under it. */
const moves = (ensure: string, ends: string): string => `import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';
const TTL = 12_000;
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
${UNLOCK}
export class Lease implements AsyncDisposable {
  private readonly beat: NodeJS.Timeout;
  private constructor(private readonly redis: Redis, private readonly key: string, private readonly token: string, private until: number) {
    this.beat = setInterval(() => void this.extend(), TTL / 4);
  }
  static async acquire(redis: Redis, block: string): Promise<Lease> {
    const [key, token, asked] = ['block:' + block, randomUUID(), performance.now()];
    if ((await redis.set(key, token, 'PX', TTL, 'NX')) !== 'OK') throw new Error('in use');
    return new Lease(redis, key, token, asked + TTL);
  }
  ${ensure}
  private async extend(): Promise<void> {
    const asked = performance.now();
    try {
      if ((await this.redis.eval(EXTEND, 1, this.key, this.token, TTL)) === 1) this.until = asked + TTL;
    } catch {}
  }
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.beat);
    await this.redis.eval(UNLOCK, 1, this.key, this.token).catch(() => undefined);
  }
}
export interface Crane { plan(block: string): Promise<string[]>; move(step: string): Promise<{ done: string }> }
async function carryOut(crane: Crane, lease: Lease, steps: string[]): Promise<string[]> {
  const done: string[] = [];
  for (const step of steps) { lease.ensure(6_000); done.push((await crane.move(step)).done); }
  return done;
}
export async function dig(redis: Redis, crane: Crane, block: string): Promise<string[]> {
  await using lease = await Lease.acquire(redis, block);
  const steps = await crane.plan(block);
  return ${ends} carryOut(crane, lease, steps);
}`;
const ENSURES = "ensure(ms: number): void { if (this.until - performance.now() < ms) throw new Error('over'); }";

it('asks a lease how much time is left', async () => {
  expect(await idsOf(moves(ENSURES, 'await'), 60)).toEqual([]);
  expect(await idsOf(moves('ensure(_: number): void {}', 'await'), 60)).toEqual(['silent-loss']);
});

it('uses the functions that work under what is acquired', async () => {
  expect(await idsOf(moves(ENSURES, ''))).toEqual(['releases-early']);
});

/** A service of which both decorators are around a method, in this order. */
const loans = (decorators: string): string => `import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { Repository } from 'typeorm';
import { Transactional } from 'typeorm-transactional';
${UNLOCK}
export function Exclusive(prefix: string) {
  return (_target: object, _name: string, descriptor: PropertyDescriptor): void => {
    const original = descriptor.value;
    descriptor.value = async function (this: { redis: Redis }, ...args: unknown[]) {
      const [key, token] = [prefix + String(args[0]), randomUUID()];
      if ((await this.redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') throw new Error('busy');
      try { return await original.apply(this, args); } finally { await this.redis.eval(UNLOCK, 1, key, token); }
    };
  };
}
@Injectable()
export class Loans {
  constructor(readonly redis: Redis, private readonly loans: Repository<object>) {}
  ${decorators}
  async checkOut(copyId: string): Promise<void> {
    await this.loans.save(this.loans.create({ copyId }));
  }
}`;

it('runs a method within the transaction of its decorator', async () => {
  expect(await idsOf(loans("@Transactional()\n  @Exclusive('copy:')"))).toEqual(['released-before-commit']);
  expect(await idsOf(loans("@Exclusive('copy:')\n  @Transactional()"))).toEqual([]);
});

/** A client of its own that gives up commands after a time; `gives` is what it does with the reply that comes later. */
const ownClient = (gives: string): string => `const net = require('net');
const { randomBytes } = require('crypto');
const [host, port] = (process.env.REDIS_ADDR || '127.0.0.1:6379').split(':');
let sock = null;
let buf = '';
let waiting = [];
function open() {
  sock = net.connect(Number(port), host);
  sock.on('data', (data) => {
    buf += data;
    for (let at = buf.indexOf('\\r\\n'); at >= 0; at = buf.indexOf('\\r\\n')) {
      const line = buf.slice(0, at);
      if (line[0] === '$' && line !== '$-1') return;
      buf = buf.slice(at + 2);
      waiting.shift()?.done(line === '$-1' ? null : line.slice(1));
    }
  });
  sock.on('error', () => {});
  sock.on('close', () => { for (const it of waiting.splice(0)) it.done(null); setTimeout(open, 500); });
}
function cmd(...args) {
  return new Promise((resolve, reject) => {
    if (!sock || sock.readyState !== 'open') return reject(new Error('not connected'));
    const one = { done: (it) => { clearTimeout(timer); resolve(it); } };
    const timer = setTimeout(() => { ${gives} reject(new Error('timeout')); }, 800);
    waiting.push(one);
    sock.write('*' + args.length + '\\r\\n' + args.map((it) => '$' + Buffer.byteLength(String(it)) + '\\r\\n' + it + '\\r\\n').join(''));
  });
}
const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
async function switchRelay(meter, state) {
  const [key, token] = ['relay:' + meter, randomBytes(12).toString('hex')];
  if ((await cmd('SET', key, token, 'NX', 'PX', 20000)) !== 'OK') return false;
  try {
    const response = await fetch('http://gateway.example/' + meter, { method: 'POST', body: state, signal: AbortSignal.timeout(15000) });
    return response.ok;
  } finally {
    await cmd('EVAL', FREE, 1, key, token).catch(() => {});
  }
}
open();
module.exports = { switchRelay };`;

it('lets answers be late that a client has given up, also where it takes time to connect', async () => {
  expect(await idsOfModule(ownClient('waiting = waiting.filter((it) => it !== one);'))).toContain(
    'answer-of-another-command',
  );
  expect(await idsOfModule(ownClient('sock.destroy();'))).toEqual([]);
});

/** Sets its key by an object of options. */
const turnover = (options: string): string => `import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
const redis = createClient({ url: process.env.REDIS_URL });
await redis.connect();
${UNLOCK}
export async function turnOver(room, work) {
  const [key, token] = ['room:' + room, randomUUID()];
  if ((await redis.set(key, token, ${options})) !== 'OK') return false;
  try { await work(); } finally { await redis.eval(UNLOCK, { keys: [key], arguments: [token] }); }
  return true;
}`;

it('says which options node-redis ignores', async () => {
  expect(await idsOfModule(turnover('{ NX: true, PX: 30_000 }'), 20)).toEqual([]);
  expect(await idsOfModule(turnover('{ nx: true, px: 30_000 }'), 20)).toContain('check-then-set');
});

/** A script that extends its lock of redlock 5 by a timer. */
const recalculation = (extend: string): string => `const { default: Redlock } = require('redlock5');
const Redis = require('ioredis');
const db = require('./db');
const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 0 });
async function main() {
  let lock = await redlock.acquire(['recalculation'], 30_000);
  const beat = setInterval(() => {
    ${extend}.catch((error) => console.warn(error.message));
  }, 10_000);
  try {
    for (;;) {
      const { rows } = await db.query('SELECT id FROM declarations WHERE done IS NULL LIMIT 100');
      if (rows.length === 0) break;
      for (const { id } of rows) await db.query('UPDATE declarations SET done = now() WHERE id = $1 AND done IS NULL', [id]);
    }
  } finally {
    clearInterval(beat);
    await lock.release().catch(() => {});
  }
}
main();`;

it('finds an extension that nobody awaits, and that drops the new lock', async () => {
  expect(await idsOfModule(recalculation('lock.extend(30_000)'))).toEqual(['stops-extending']);
  expect(await idsOfModule(recalculation('lock.extend(30_000).then((it) => { lock = it; })'))).toEqual([]);
});

/** Bids on a lot of which a record has to say that it is open, and what was bid before. */
const bids = (exec: string): string => `import { createClientPool } from 'redis';
const pool = createClientPool({ url: process.env.REDIS_URL });
await pool.connect();
const round = (lotId, bid, step) => pool.execute(async (client) => {
  const head = 'lot:' + lotId;
  await client.watch(head);
  const lot = await client.hGetAll(head);
  if (lot.state !== 'open') return 'closed';
  if (bid.price < Number(lot.price ?? 0) + step) return 'low';
  ${exec}
  return 'accepted';
});
export async function place(lotId, bid, step = 50) {
  if (!Number.isSafeInteger(bid.price)) throw new RangeError('price must be whole');
  return await round(lotId, bid, step);
}`;
const EXEC = 'await client.multi().hSet(head, { price: String(bid.price), buyer: bid.buyer }).exec()';

it('stores a record that lets a bid be made, and races bids', async () => {
  expect(await idsOfModule(bids(`${EXEC};`))).toEqual([]);
  expect(await idsOfModule(bids(`${EXEC}.catch(() => null);`))).toEqual(['ignores-exec']);
});

/** Books stalls whose codes are checked, by the header of a request of Koa; `prefix` is that of all keys. */
const stalls = (prefix: string, exec: string): string => `import Koa from 'koa';
import Router from '@koa/router';
import Redis from 'ioredis';
import { Pool } from 'pg';
const redis = new Redis({ host: process.env.REDIS_HOST, keyPrefix: ${prefix} });
const pool = new Pool();
const router = new Router();
router.post('/stalls', async (ctx) => {
  const id = ctx.get('Idempotency-Key');
  if (!/^[\\w-]{16,64}$/.test(id)) ctx.throw(400, 'no key');
  const { stalls } = ctx.request.body;
  if (!Array.isArray(stalls) || !stalls.every((it) => /^[A-H]\\d{1,2}$/.test(String(it)))) ctx.throw(400, 'stalls?');
  if ((await redis.set('stalls:' + id, 'pending', 'PX', 86_400_000, 'NX')) !== 'OK') { ctx.status = 409; return; }
  ${exec}
  ctx.body = { ok: true };
});
const app = new Koa();
app.use(router.routes());
app.listen(4000);`;
const BOOKS = "await pool.query('INSERT INTO stalls (codes) VALUES ($1)', [stalls.map((it) => it.toUpperCase())]);";

it('asks by a header, and for a list, of the form that is checked', async () => {
  expect(await idsOfModule(stalls("'market:'", BOOKS))).toEqual([]);
});

it('finds a key that has the release of its program in it', async () => {
  expect(await idsOfModule(stalls("process.env.APP_RELEASE + ':'", BOOKS))).toEqual(['key-of-release']);
});

/** Holds cabins by a handler of Hono, beside another function without a name that has a parameter of the same name. */
const cabins = (release: string): string => `import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
${UNLOCK}
const keysOf = (all: string[]): string[] => all.map((c) => 'cabin:' + c);
export const app = new Hono();
app.post('/cabins/:id', async (c) => {
  const [key = ''] = keysOf([c.req.param('id')]);
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 10_000, 'NX')) !== 'OK') return c.json({ error: 'held' }, 409);
  try {
    await fetch('https://ships.example/' + key, { method: 'POST', signal: AbortSignal.timeout(2_000) });
    return c.json({ ok: true });
  } finally { ${release} }
});`;

it('takes a handler without a name for what it reads', async () => {
  expect(await idsOf(cabins('await redis.eval(UNLOCK, 1, key, token);'))).toEqual([]);
  expect(await idsOf(cabins('await redis.del(key);'), 40)).toContain('blind-release');
});

/** A script that works in many steps, and extends its lease by `lease`. */
const batch = (lease: string): string => `import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
const LEASE = 30;
const RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
${UNLOCK}
const redis = new Redis(process.env.REDIS_URL);
const token = randomUUID();
if ((await redis.set('batch', token, 'EX', LEASE, 'NX')) !== 'OK') process.exit(0);
const lost = new AbortController();
const beat = setInterval(async () => {
  const kept = await redis.eval(RENEW, 1, 'batch', token, ${lease}).catch(() => 0);
  if (kept !== 1) lost.abort(new Error('lost'));
}, 10_000);
try {
  const clients = await (await fetch('https://tax.example/clients', { signal: AbortSignal.any([lost.signal, AbortSignal.timeout(8_000)]) })).json();
  for (const { id } of clients) {
    lost.signal.throwIfAborted();
    await fetch('https://tax.example/transcripts/' + id, { method: 'PUT', signal: AbortSignal.any([lost.signal, AbortSignal.timeout(8_000)]) });
  }
} finally {
  clearInterval(beat);
  await redis.eval(UNLOCK, 1, 'batch', token).catch(() => {});
  redis.disconnect();
}`;

it('extends a lock of work that has many steps, each of which has a time limit', async () => {
  expect(await idsOfModule(batch('LEASE'))).toEqual(['seconds-as-ms']);
  expect(await idsOfModule(batch('LEASE * 1000'))).toEqual([]);
});
