import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function locked<T>(key: string, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  try { return await work(); } finally { await redis.eval(UNLOCK, 1, key, token); }
}
`;
const DATABASE = `import pg from 'pg';
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
`;
/** Takes something from stock: \`under\` stands around what is done under the lock. */
const taking = (given: string, under: string, rest = ''): string => `
  const { rows } = await db.query('SELECT amount FROM stock WHERE id = $1', [${given}]);
  ${under}
  ${rest}`;
const STORES = "await db.query('UPDATE stock SET amount = $1 WHERE id = $2', [rows[0].amount - 1, id]);";

it('calls a route that is handed to a framework, though neither that nor its database is installed', async () => {
  const { ids, understood } = await audited(`${HEAD}${DATABASE}
import express from 'express';
const app = express();
app.use(express.json());
app.post('/stock/:id', async (req, res) => {
  const { id } = req.params;
  ${taking('id', `await locked('stock:' + id, async () => { ${STORES} });`, 'res.status(204).end();')}
});
app.listen(3000);`);
  expect(understood).toContain('post /stock/:id (lock.ts) does its own work under the lock');
  expect(understood).toContain('express, pg: not loaded; what is called of them succeeds');
  expect(ids).toEqual(['reads-before-lock']);
});

it('reads under the lock what a route changes', async () => {
  const text = `${HEAD}${DATABASE}
import Fastify from 'fastify';
const app = Fastify({ logger: true });
app.post('/stock/:id', async (req, reply) => {
  const { id } = req.params as { id: string };
  await locked('stock:' + id, async () => { ${taking('id', STORES)} });
  return reply.code(204).send();
});`;
  expect(await idsOf(text)).toEqual([]);
});

/** Counts what is left every night. */
const counting = (returned: string): string => `${HEAD}${DATABASE}
import cron from 'node-cron';
import pino from 'pino';
const logger = pino({ level: 'info' });
cron.schedule('0 3 * * *', async () => {
  logger.info('counting');
  ${returned} locked('stock:count', async () => {
    const { rows } = await db.query('SELECT id, counted FROM shelves');
    for (const shelf of rows) await db.query('UPDATE shelves SET counted = now() WHERE id = $1', [shelf.id]);
  });
}, { timezone: 'UTC' });`;

it('calls a job that is handed to a scheduler', async () => {
  const { ids, understood } = await audited(counting('await').replace('return await work()', 'return work()'));
  expect(understood).toContain('schedule (lock.ts) does its own work under the lock');
  expect(ids).toEqual(['releases-early']);
  expect(await idsOf(counting('await'))).toEqual([]);
});

it('makes a service of a framework by its decorated constructor', async () => {
  const service = (held: string): string => `${HEAD}
import { ConflictException, Inject, Injectable } from '@nestjs/common';
import type { Repository } from 'typeorm';
@Injectable()
export class Orders {
  private readonly owner = randomUUID();
  constructor(@Inject('REDIS') private readonly client: Redis, @Inject('ORDERS') private readonly orders: Repository<object>) {}
  async pay(orderId: string): Promise<void> {
    const token = ${held};
    if ((await this.client.set('order:' + orderId, token, 'PX', 30_000, 'NX')) !== 'OK') throw new ConflictException('busy');
    try { await this.orders.update(orderId, { paid: true }); } finally { await this.client.eval(UNLOCK, 1, 'order:' + orderId, token); }
  }
}`;
  const { ids, understood } = await audited(service('randomUUID()'));
  expect(understood).toContain('Orders.pay (lock.ts:');
  expect(ids).toEqual([]);
  expect(await idsOf(service("'1'"), 60)).toContain('shared-value');
});

it('still asks for a package that may make tokens', async () => {
  await expect(audited(`import { nonce } from 'no-such-nonce'; ${HEAD} export const token = nonce();`)).rejects.toThrow(
    'run npm install no-such-nonce',
  );
});

it('finds two of four nodes to be no majority where its work is its own', async () => {
  const closing = (quorum: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const nodes = (process.env.LOCK_NODES ?? 'a,b,c,d').split(',')
  .map((host) => new Redis({ host, commandTimeout: 200, maxRetriesPerRequest: 0, enableOfflineQueue: false }));
for (const node of nodes) node.on('error', () => {});
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function close(day: string): Promise<boolean> {
  const [key, token] = ['close:' + day, randomUUID()];
  const replies = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', 30_000, 'NX')));
  const votes = replies.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
  try {
    if (votes < ${quorum}) return false;
    await fetch(process.env.LEDGER_URL + '/days/' + day, { method: 'POST', signal: AbortSignal.timeout(5_000) });
    return true;
  } finally { await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, key, token))); }
}`;
  expect(await idsOf(closing('Math.ceil(nodes.length / 2)'))).toEqual(['no-majority']);
  expect(await idsOf(closing('Math.floor(nodes.length / 2) + 1'))).toEqual([]);
});

/** Sends a digest to all readers, on a platform that lets it run for so many seconds. */
const digest = (maxDuration: number): string => `${HEAD}${DATABASE}
import nodemailer from 'nodemailer';
export const maxDuration = ${maxDuration};
const mailer = nodemailer.createTransport(process.env.SMTP_URL!);
export async function GET(): Promise<Response> {
  await locked('digest', async () => {
    const { rows } = await db.query('SELECT id, email FROM readers WHERE due_at <= now()');
    for (const reader of rows) {
      await mailer.sendMail({ to: reader.email, subject: 'Your digest' });
      await db.query('UPDATE readers SET due_at = due_at + interval $1 WHERE id = $2', ['1 day', reader.id]);
    }
  });
  return Response.json({ done: true });
}`;

it('finds a route that its platform lets run for longer than its TTL', async () => {
  expect(await idsOf(digest(300))).toEqual(['work-outlasts-ttl']);
  expect(await idsOf(digest(25))).toEqual([]);
});

it('calls a function whose name is that of an extension, where it does work of its own', async () => {
  const { ids, understood } = await audited(`${HEAD}
interface Loans { extend(id: string): Promise<string> }
export class Renewals {
  constructor(private readonly client: Redis, private readonly loans: Loans) {}
  async renew(loanId: string): Promise<string> {
    const [key, token] = ['loan:' + loanId, randomUUID()];
    if ((await this.client.set(key, token, 'PX', 10_000, 'NX')) !== 'OK') throw new Error('busy');
    try { return await this.loans.extend(loanId); } finally { await this.unlock(key, token); }
  }
  private async unlock(key: string, token: string): Promise<void> {
    if ((await this.client.get(key)) === token) await this.client.del(key);
  }
}`);
  expect(understood).toContain('Renewals.renew (lock.ts:');
  expect(ids).toEqual(['two-step-release']);
});

it('has nodes that know the commands of newer servers where a file sends them', async () => {
  const guarding = (condition: string): string => `${HEAD}
export async function withNew<T>(key: string, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  try { return await work(); } finally { await redis.call('DELEX', key, '${condition}', token); }
}`;
  expect(await idsOf(guarding('IFEQ'))).toEqual([]);
  expect(await idsOf(guarding('IFNE'))).toContain('never-frees');
});

it('tells an error that the work throws from one of the release', async () => {
  const text = `import Redis from 'ioredis';
import Redlock from 'redlock5';
import { PrismaClient } from '@prisma/client';
const prisma = new PrismaClient();
const nodes = ['a', 'b', 'c'].map((host) => new Redis({ host, maxRetriesPerRequest: 1, commandTimeout: 500 }));
for (const node of nodes) node.on('error', () => {});
const redlock = new Redlock(nodes, { retryCount: 3, automaticExtensionThreshold: 3_000 });
redlock.on('error', () => {});
export class Taken extends Error {}
export async function book(vetId: string, slot: string): Promise<void> {
  await redlock.using(['vet:' + vetId], 10_000, async (signal) => {
    const clash = await prisma.appointment.findFirst({ where: { vetId, slot } });
    if (clash) throw new Taken(slot);
    if (signal.aborted) throw signal.error;
    await prisma.appointment.create({ data: { vetId, slot } });
  });
}`;
  expect(await idsOf(text, 40)).toEqual([]);
});

it('grants a key by SET with NX and GET where that answers with nothing', async () => {
  const claiming = (refused: string): string => `${HEAD}
interface Store { put(id: string): Promise<void> }
export async function claim(store: Store, id: string): Promise<boolean> {
  const [key, token] = ['claim:' + id, randomUUID()];
  const before = await redis.set(key, token, 'PX', 30_000, 'NX', 'GET');
  if (${refused}) return false;
  try { await store.put(id); return true; } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
  expect(await idsOf(claiming('before !== null'), 40)).toEqual([]);
  expect(await idsOf(claiming('before === token'), 40)).not.toEqual([]);
});

it('sends what another fetch asks for to the nodes, where that is the address of Redis', async () => {
  const text = `import fetch from 'node-fetch';
import { randomUUID } from 'node:crypto';
const ask = async (...command: string[]): Promise<unknown> => {
  const answer = await fetch(process.env.UPSTASH_REDIS_REST_URL!, {
    method: 'POST',
    headers: { authorization: 'Bearer ' + process.env.UPSTASH_REDIS_REST_TOKEN },
    body: JSON.stringify(command),
  });
  return ((await answer.json()) as { result: unknown }).result;
};
export async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  if ((await ask('SET', key, token, 'NX')) !== 'OK') throw new Error('busy');
  try { return await fn(); } finally { await ask('DEL', key); }
}
`;
  expect(await idsOf(text)).toEqual(['no-ttl']);
});

it('has something stand for schemas that check nothing, and for dates in other time zones', async () => {
  const { ids, understood } = await audited(`${HEAD}
import { Type, type Static } from '@sinclair/typebox';
import { UTCDate } from '@date-fns/utc';
import { report } from './report.js';
const Night = Type.Object({ hotel: Type.String() });
export async function mail(night: Static<typeof Night>): Promise<void> {
  const day = new UTCDate().toISOString().slice(0, 10);
  await locked('mail:' + night.hotel + ':' + day, () => report.send(night.hotel));
}`);
  expect(understood).toContain('@sinclair/typebox: not installed');
  expect(ids).toEqual([]);
});

it('imports no package that only a comment requires', async () => {
  const text = `/** const { hold } = require('hold-redis'); */
const { randomUUID } = require('node:crypto');
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
exports.hold = async function hold(redis, key, ttlMs, work) {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('busy');
  try { return await work(); } finally { await redis.eval(UNLOCK, 1, key, token); }
};`;
  expect((await audited(text, 0, 'lock.cjs')).ids).toEqual([]);
});
