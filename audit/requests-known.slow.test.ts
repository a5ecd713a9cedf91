import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';
import { z } from 'zod';
const redis = new Redis(process.env.REDIS_URL!);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;
/** Does something under a lock that is not waited for. */
const locked = (key: string, work: string, busy: string): string => `
  const key = ${key}, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') ${busy}
  try { ${work} } finally { await redis.eval(UNLOCK, 1, key, token); }`;
const PAYS = "await db.query('UPDATE orders SET paid_at = now() WHERE id = $1', [id]);";

it('lets the schema of a request pass what is not known', async () => {
  const route = (busy: string): string => `${HEAD}
import { Hono } from 'hono';
const app = new Hono();
const Body = z.object({ id: z.string().uuid(), amount: z.number().int().min(1) });
app.post('/orders', async (c) => {
  const parsed = Body.safeParse(await c.req.json());
  if (!parsed.success) return c.json({ error: 'malformed' }, 422);
  const { id } = parsed.data;
  ${locked("'order:' + id", PAYS, busy)}
  return c.json({ id }, 201);
});`;
  expect(await idsOf(route("return c.json({ error: 'busy' }, 409);"))).toEqual([]);
  expect(await idsOf(route("console.warn('busy');"))).toEqual(['fails-open']);
});

it('does not take what is logged for work that is done without the lock', async () => {
  const route = (more: string): string => `${HEAD}
import Fastify from 'fastify';
const app = Fastify();
app.post('/orders/:id', async (req, reply) => {
  const { id } = req.params as { id: string };
  ${locked("'order:' + id", PAYS, `{ req.log.warn({ id }, 'busy'); ${more} }`)}
  return { id };
});`;
  expect(await idsOf(route('return reply.code(409).send();'))).toEqual([]);
  expect(await idsOf(route(''))).toEqual(['fails-open']);
});

/** A webhook that sets its key before it does its work. */
const webhook = (failed: string): string => `${HEAD}
import Stripe from 'stripe';
import { Hono } from 'hono';
const stripe = new Stripe(process.env.STRIPE_KEY!);
const app = new Hono();
async function handle(event: Stripe.Event): Promise<void> {
  switch (event.type) {
    case 'checkout.session.completed':
      await db.query('UPDATE accounts SET credits = credits + 1 WHERE id = $1', [event.data.object.id]);
      return;
    default:
      return;
  }
}
app.post('/hook', async (c) => {
  const event = await stripe.webhooks.constructEventAsync(await c.req.text(), c.req.header('stripe-signature') ?? '', 'secret');
  if ((await redis.set('event:' + event.id, '1', 'EX', 259_200, 'NX')) !== 'OK') return c.json({ duplicate: true });
  try {
    await handle(event);
    return c.json({ received: true });
  } catch (error) { ${failed} return c.text('failed', 500); }
});`;

it('finds an event that is lost when its work fails, though its type decides what is done', async () => {
  expect(await idsOf(webhook("console.error('failed', error);"))).toEqual(['kept-on-error']);
  expect(await idsOf(webhook("await redis.del('event:' + event.id);"))).toEqual([]);
});

it('calls the services that a plugin is handed, whatever they are of, and takes no metric for work', async () => {
  const plugin = (failed: string): string => `import type { FastifyInstance } from 'fastify';
import type { RedisClientType } from 'redis';
import { OrderService } from '../orders/order.service';
import { counter } from '../metrics';
interface Deps { redis: RedisClientType; orders: OrderService }
export default async function payments(app: FastifyInstance, { redis, orders }: Deps) {
  app.post('/payments', async (req, reply) => {
    const { id } = req.body as { id: string };
    if ((await redis.set('payment:' + id, '1', { NX: true, EX: 604_800 })) !== 'OK') {
      counter('payment_duplicate').inc();
      return reply.code(200).send({ duplicate: true });
    }
    try {
      await orders.markPaid(id);
    } catch (error) {
      ${failed}
      counter('payment_failed').inc();
      return reply.code(500).send();
    }
    return reply.code(200).send({ ok: true });
  });
}`;
  expect(await idsOf(plugin(''))).toEqual(['kept-on-error']);
  expect(await idsOf(plugin("await redis.del('payment:' + id);"))).toEqual([]);
});

it('takes a script that stores a result where its claim has expired for no extension', async () => {
  const route = (value: string, seconds: number): string => `${HEAD}
import { Hono } from 'hono';
import Stripe from 'stripe';
const stripe = new Stripe(process.env.STRIPE_KEY!);
const FINISH = "local c = redis.call('get', KEYS[1]) if c == false or c == ARGV[1] then redis.call('set', KEYS[1], ARGV[2], 'ex', ARGV[3]) return 1 end return 0";
const app = new Hono();
app.post('/orders/:id/pay', async (c) => {
  const key = 'pay:' + c.req.param('id'), mine = randomUUID();
  if ((await redis.set(key, mine, 'EX', 60, 'NX')) !== 'OK') {
    const seen = await redis.get(key);
    return seen?.startsWith('{') ? c.json(JSON.parse(seen)) : c.json({ error: 'busy' }, 409);
  }
  const intent = await stripe.paymentIntents.create({ amount: 100, currency: 'eur' }, { idempotencyKey: key });
  await redis.eval(FINISH, 1, key, mine, ${value}, ${seconds});
  return c.json({ id: intent.id });
});`;
  expect(await idsOf(route('JSON.stringify({ id: intent.id })', 86_400))).toEqual([]);
  expect(await idsOf(route('mine', 60))).toContain('revives-lock');
});

it('finds a message of Kafka that is lost, though the file parses it itself', async () => {
  const consumer = (failed: string): string => `${HEAD}
import { Kafka } from 'kafkajs';
const kafka = new Kafka({ clientId: 'points', brokers: process.env.KAFKA_BROKERS!.split(',') });
const consumer = kafka.consumer({ groupId: 'points' });
const Purchase = z.object({ id: z.string(), cents: z.number() });
await consumer.run({ eachMessage: async ({ message }) => {
  const { id, cents } = Purchase.parse(JSON.parse(message.value!.toString()));
  if ((await redis.set('purchase:' + id, message.offset, 'EX', 604_800, 'NX')) !== 'OK') return;
  try {
    await db.query('UPDATE cards SET points = points + $1 WHERE id = $2', [cents, id]);
  } catch (error) { ${failed} throw error; }
} });`;
  expect(await idsOf(consumer(''))).toEqual(['kept-on-error']);
  expect(await idsOf(consumer("await redis.del('purchase:' + id);"))).toEqual([]);
});

it('finds what is read before the lock from a table of prices on, with a mapper of documents', async () => {
  const shop = (before: string, within: string): string => `${HEAD}
import mongoose from 'mongoose';
import express from 'express';
const Member = mongoose.model('Member', new mongoose.Schema({ points: Number }));
const PRICES: Record<string, number> = { coffee: 120, cake: 200 };
const router = express.Router();
router.post('/members/:id/:reward', async (req, res) => {
  const price = PRICES[req.params.reward];
  if (!price) return res.status(404).end();
  ${before}
  ${locked(
    "'member:' + req.params.id",
    `${within} await Member.updateOne({ _id: req.params.id }, { $set: { points: member.points - price } });`,
    'return res.status(409).end();',
  )}
  res.json({ ok: true });
});
export default router;`;
  const reads = 'const member = await Member.findById(req.params.id).lean();';
  expect(await idsOf(shop(reads, ''))).toEqual(['reads-before-lock']);
  expect(await idsOf(shop('', reads))).toEqual([]);
});

it('works where what is looked for first is not there yet', async () => {
  const { ids, understood } = await audited(`${HEAD}
import express from 'express';
const app = express();
const find = async (id: string) => (await db.query('SELECT url FROM labels WHERE order_id = $1', [id])).rows[0];
app.post('/orders/:id/label', async (req, res) => {
  const { id } = req.params;
  const label = await find(id);
  if (label) return res.json(label);
  const { rows } = await db.query('SELECT weight FROM orders WHERE id = $1', [id]);
  if (rows.length === 0) return res.status(404).end();
  ${locked("'label:' + id", "await db.query('INSERT INTO labels (order_id) VALUES ($1)', [id]);", 'return res.status(409).end();')}
  res.status(201).json(await find(id));
});`);
  expect(understood).toContain('its key is "label:a"');
  expect(ids).toEqual([]);
});

it('gives functions of Node the text of what is not known', async () => {
  const text = `${HEAD}
import axios from 'axios';
export async function render(id: string): Promise<void> {
  ${locked(
    "'render:' + id",
    `const { rows } = await db.query('SELECT html FROM pages WHERE id = $1', [id]);
  const form = new FormData();
  form.append('file', new Blob([rows[0].html], { type: 'text/html' }), 'a.html');
  const pdf = await axios.post(process.env.RENDERER_URL!, form);
  const body = Buffer.concat([Buffer.from(pdf.data), Buffer.from(structuredClone(rows[0].tail))]);
  await fetch(rows[0].upload_url, { method: 'PUT', body });`,
    "throw new Error('busy');",
  )}
}`;
  expect(await idsOf(text)).toEqual([]);
});

/** Posts what is due, under a key that lives for so long. */
const posting = (ttl: string, name: string): string => `${HEAD}
const ${name} = ${ttl};
export async function post(id: string): Promise<void> {
  ${locked("'post:' + id", PAYS, "throw new Error('busy');").replace('30_000', name)}
}`;

it('takes a product of 60 for seconds, and no time at all for too short for calls of a database', async () => {
  expect(await idsOf(posting('10 * 60', 'LOCK_TTL'))).toEqual(['seconds-as-ms']);
  expect(await idsOf(posting('120', 'LOCK_TTL'))).toEqual(['seconds-as-ms']);
  expect(await idsOf(posting('10 * 60 * 1000', 'LOCK_TTL'))).toEqual([]);
  expect(await idsOf(posting('600', 'LOCK_TTL'))).toEqual([]);
});

it('finds work that takes longer than its TTL, as a comment says', async () => {
  const said = (comment: string): string => `${comment}\n${posting('30_000', 'TTL')}`;
  const { ids } = await audited(said('// Posting takes one to two minutes for a big account.'));
  expect(ids).toEqual(['work-outlasts-ttl']);
  expect(await idsOf(said('// Posting takes one to two seconds for a big account.'))).toEqual([]);
});

it('asks all the nodes that a file names, where it asks for half of them', async () => {
  const voted = (needed: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const servers = ['a.internal', 'b.internal', 'c.internal', 'd.internal'].map(
  (host) => new Redis({ host, commandTimeout: 250, maxRetriesPerRequest: 0, enableOfflineQueue: false }));
for (const server of servers) server.on('error', () => {});
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function order(id: string, place: () => Promise<void>): Promise<void> {
  const key = 'order:' + id, token = randomUUID();
  const all = await Promise.allSettled(servers.map((it) => it.set(key, token, 'PX', 60_000, 'NX')));
  const yes = all.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
  try { if (yes >= ${needed}) await place(); }
  finally { await Promise.allSettled(servers.map((it) => it.eval(UNLOCK, 1, key, token))); }
}`;
  expect(await idsOf(voted('Math.ceil(servers.length / 2)'))).toEqual(['no-majority']);
  expect(await idsOf(voted('Math.floor(servers.length / 2) + 1'))).toEqual([]);
});

it('does not take a second election for an extension', async () => {
  const leader = (lost: string): string => `import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
const RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
export class Leader {
  private readonly id = randomUUID();
  private term?: AbortController;
  constructor(private readonly redis: Redis, private readonly lead: (signal: AbortSignal) => Promise<void>) {}
  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const sentAt = performance.now();
      try {
        const ours = this.term
          ? (await this.redis.eval(RENEW, 1, 'leader', this.id, '12000')) === 1
          : (await this.redis.set('leader', this.id, 'PX', 12_000, 'NX')) === 'OK';
        if (!ours) { ${lost} }
        else if (!this.term) { this.term = new AbortController(); void this.lead(this.term.signal).catch(() => {}); }
        if (performance.now() - sentAt > 5_000) { this.term?.abort(); this.term = undefined; }
      } catch { this.term?.abort(); this.term = undefined; }
      await sleep(3_000);
    }
    this.term?.abort();
  }
}`;
  expect(await idsOf(leader('this.term?.abort(); this.term = undefined;'))).not.toContain('revives-lock');
});

it('finds that a second call in its process takes the key of the first one for its own', async () => {
  const booking = (owned: string): string => `${HEAD}
import express from 'express';
const OWNER = randomUUID();
async function take(key: string): Promise<boolean> {
  if ((await redis.set(key, OWNER, 'PX', 20_000, 'NX')) === 'OK') return true;
  return ${owned};
}
const app = express();
app.post('/tables/:id/bookings', async (req, res) => {
  const key = 'table:' + req.params.id;
  if (!(await take(key))) return res.status(503).end();
  try {
    const { rows } = await db.query('SELECT seats FROM tables WHERE id = $1', [req.params.id]);
    await db.query('INSERT INTO bookings (table_id, seats) VALUES ($1, $2)', [req.params.id, rows[0].seats]);
    res.status(201).end();
  } finally { await redis.eval(UNLOCK, 1, key, OWNER); }
});`;
  expect(await idsOf(booking('(await redis.get(key)) === OWNER'))).toContain('lets-tasks-in');
  expect(await idsOf(booking('false'))).not.toContain('lets-tasks-in');
});
