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
});`;

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
