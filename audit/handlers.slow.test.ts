import { expect, it } from 'vitest';
import { audited, idsOf, idsOfModule } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;

it('stands for a package that is not installed, and says so', async () => {
  const text = (name: string): string => `${HEAD}
import { Market } from '${name}';
const market = new Market();
export async function buy(fuelId: string): Promise<void> {
  const key = 'fuel:' + fuelId, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  try { await market.order(fuelId); } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
  const { ids, understood } = await audited(text('@ferry/fuel-market'));
  expect(ids).toEqual([]);
  expect(understood).toContain('@ferry/fuel-market: not installed (npm install @ferry/fuel-market)');
  await expect(audited(text('@ferry/locks'))).rejects.toThrow('run npm install @ferry/locks');
});

it('names the package that is not installed where no lock is found without it', async () => {
  await expect(
    audited("import { guarded } from '@ferry/infra'; export const pay = guarded(async (id) => id);"),
  ).rejects.toThrow('imports @ferry/infra, which is not installed; run npm install @ferry/infra');
});

it('finds the handlers that a plugin adds to its application, beside what else that has', async () => {
  const plugin = (busy: string): string => `import { randomUUID } from 'node:crypto';
import type { FastifyPluginAsync } from 'fastify';
import { createClient } from 'redis';
import { orders } from '../orders';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export const cancelling: FastifyPluginAsync = async (api) => {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (error) => api.log.warn({ error }, 'redis'));
  await redis.connect();
  api.addHook('onClose', async () => { await redis.quit(); });
  api.post<{ Params: { id: string } }>('/orders/:id/cancel', { preHandler: api.requireRole('support') }, async (req, reply) => {
    const key = 'order:' + req.params.id, token = randomUUID();
    if ((await redis.set(key, token, { NX: true, PX: 30_000 })) !== 'OK') ${busy}
    try { await orders.cancel(req.params.id); } finally { await redis.eval(UNLOCK, { keys: [key], arguments: [token] }); }
    return reply.code(204).send();
  });
};`;
  const { ids, understood } = await audited(plugin('return reply.code(409).send();'));
  expect(understood).toContain('cancelling.post /orders/:id/cancel');
  expect(ids).toEqual([]);
  expect(await idsOf(plugin("req.log.warn('busy');"))).toEqual(['fails-open']);
});

/** A consumer of RabbitMQ that does this with a message whose lock is busy. */
const consumer = (busy: string): string => `${HEAD}
import amqp from 'amqplib';
export async function start(): Promise<void> {
  const channel = await (await amqp.connect(process.env.AMQP_URL!)).createChannel();
  await channel.consume('parcels', async (message) => {
    if (!message) return;
    const { orderId, parcelId } = JSON.parse(message.content.toString());
    const key = 'order:' + orderId, token = randomUUID();
    if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') { ${busy} return; }
    try {
      await db.query('INSERT INTO parcels (id, order_id) VALUES ($1, $2)', [parcelId, orderId]);
      channel.ack(message);
    } catch { channel.nack(message, false, true); }
    finally { await redis.eval(UNLOCK, 1, key, token); }
  });
}`;

it('finds a message that is acknowledged though its lock is busy', async () => {
  const { ids, understood } = await audited(consumer('channel.ack(message);'));
  expect(understood).toContain('start.consume (lock.ts)');
  expect(ids).toContain('drops-busy');
  expect(await idsOf(consumer('channel.nack(message, false, true);'))).not.toContain('drops-busy');
});

it('finds the handler of a script that connects first, and calls the whole of it', async () => {
  const sending = (checked: string): string => `
import cron from 'node-cron';
import nodemailer from 'nodemailer';
import { createClient } from 'redis';
const client = createClient({ url: process.env.REDIS_URL });
client.on('error', () => {});
const mailer = nodemailer.createTransport({ host: process.env.SMTP_HOST });
async function isMyTurn(day) {
  return (await client.set('sent:' + day, String(process.pid), { NX: true, EX: 172_800 })) === 'OK';
}
async function main() {
  await client.connect();
  cron.schedule('0 9 * * *', async () => {
    const turn = await isMyTurn(new Date().toISOString().slice(0, 10));
    ${checked}
    await mailer.sendMail({ to: process.env.LIST, subject: 'Offers' });
  });
}
main();`;
  expect(await idsOfModule(sending('if (!turn) return;'))).toEqual([]);
  expect(await idsOfModule(sending('if (!turn) console.log("sent before");'))).toEqual(['fails-open']);
});

it('finds a lock that is kept where work throws that a consumer of Kafka has begun', async () => {
  const loading = (before: string, within: string): string => `${HEAD}
import { Kafka } from 'kafkajs';
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
const kafka = new Kafka({ clientId: 'silo', brokers: process.env.KAFKA_BROKERS!.split(',') });
export async function run(): Promise<void> {
  const consumer = kafka.consumer({ groupId: 'silo' });
  await consumer.connect();
  await consumer.run({ eachMessage: async ({ message }) => {
    const { siloId } = JSON.parse(message.value!.toString());
    const key = 'silo:' + siloId, token = randomUUID();
    if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
    const timer = setInterval(() => void redis.eval(EXTEND, 1, key, token, '30000').catch(() => {}), 5_000);
    ${before}
    try { ${within} } finally { clearInterval(timer); await redis.eval(UNLOCK, 1, key, token); }
  } });
}`;
  const load = "await db.query('UPDATE silos SET tonnes = tonnes - 1 WHERE id = $1', [siloId]);";
  expect(await idsOf(loading(load, load))).toContain('kept-on-error');
  expect(await idsOf(loading('', load))).not.toContain('kept-on-error');
});

it('gives a client the host alone, where the file names no port', async () => {
  const voting = (needed: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const HOSTS = (process.env.LOCK_HOSTS ?? 'a.lan,b.lan,c.lan').split(',');
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class TurbineLock {
  private readonly nodes: Redis[];
  constructor(hosts: string[] = HOSTS) {
    this.nodes = hosts.map((host) => new Redis({ host, commandTimeout: 300, maxRetriesPerRequest: 0, enableOfflineQueue: false }));
    for (const node of this.nodes) node.on('error', () => {});
  }
  async lock(name: string): Promise<string | null> {
    const token = randomUUID();
    const all = await Promise.allSettled(this.nodes.map((it) => it.set(name, token, 'PX', 60_000, 'NX')));
    if (all.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length >= ${needed}) return token;
    await this.unlock(name, token);
    return null;
  }
  async unlock(name: string, token: string): Promise<void> {
    await Promise.allSettled(this.nodes.map((it) => it.eval(UNLOCK, 1, name, token)));
  }
}`;
  expect(await idsOf(voting('Math.floor(this.nodes.length / 2)'))).toContain('no-majority');
  expect(await idsOf(voting('Math.floor(this.nodes.length / 2) + 1'))).toEqual([]);
});

it('gives a function in a cloud time to run, of which it makes its TTL', async () => {
  const { ids, understood } = await audited(`import { randomUUID } from 'node:crypto';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function handle(record: SQSRecord, context: Context): Promise<void> {
  const { fineId } = JSON.parse(record.body);
  const key = 'fine:' + fineId, token = randomUUID();
  if ((await redis.set(key, token, 'PX', context.getRemainingTimeInMillis() + 15_000, 'NX')) !== 'OK') throw new Error('busy');
  try { await fetch(process.env.PRINT_URL + '/letters', { method: 'POST', body: fineId, signal: AbortSignal.timeout(10_000) }); }
  finally { await redis.eval(UNLOCK, 1, key, token); }
}
export const handler = async (event: SQSEvent, context: Context) => {
  for (const record of event.Records) await handle(record, context);
};`);
  expect(understood).toContain('its TTL is 75 s');
  expect(ids).toEqual([]);
});

it('does the work of a client of its own that looks first whether there is anything open', async () => {
  const ordering = (checked: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function order(atmId: string): Promise<boolean> {
  const key = 'atm:' + atmId, token = randomUUID();
  const reply = await redis.set(key, token, 'PX', 60_000, 'NX');
  ${checked}
  try {
    const open = await (await fetch(process.env.CARRIER_URL + '/orders?atm=' + atmId)).json();
    if (open.length > 0) return false;
    await fetch(process.env.CARRIER_URL + '/orders', { method: 'POST', body: atmId, signal: AbortSignal.timeout(10_000) });
    return true;
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
  expect(await idsOf(ordering("if (reply !== 'OK') return false;"))).toEqual([]);
  expect(await idsOf(ordering("console.log('asked', reply);"))).toEqual(['fails-open']);
});

it('gives a request the path that is matched against an expression', async () => {
  const text = (then: string): string => `${HEAD}
import Koa from 'koa';
const app = new Koa();
app.use(async (ctx) => {
  const match = /^\\/accounts\\/(\\d+)\\/close$/.exec(ctx.path);
  if (!match) ctx.throw(404);
  const [, account] = match, key = 'account:' + account, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') ${then}
  try { await db.query('UPDATE accounts SET closed = true WHERE id = $1', [account]); }
  finally { await redis.eval(UNLOCK, 1, key, token); }
});`;
  const { ids, understood } = await audited(text('ctx.throw(409);'));
  expect(understood).toContain('"account:10000097"');
  expect(ids).toEqual([]);
  expect(await idsOf(text("console.warn('busy');"))).toEqual(['fails-open']);
});

it('gives a worker its environment', async () => {
  const text = (then: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { Hono } from 'hono';
const app = new Hono();
app.post('/refresh', async (c) => {
  const redis = new Redis({ url: c.env.UPSTASH_REDIS_REST_URL, token: c.env.UPSTASH_REDIS_REST_TOKEN });
  const token = randomUUID();
  if ((await redis.set('refresh', token, { nx: true, ex: 60 })) !== 'OK') ${then}
  try { await c.env.STORE.put('rates', '1'); return c.json({}); }
  finally { await redis.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", ['refresh'], [token]); }
});
export default app;`;
  expect(await idsOf(text('return c.json({}, 409);'))).toEqual([]);
  expect(await idsOf(text("console.warn('busy');"))).toEqual(['fails-open']);
});

it('sees that a response which is streamed does not wait for its work', async () => {
  const text = (work: string): string => `import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { stream } from 'hono/streaming';
import { Redis } from '@upstash/redis';
const redis = Redis.fromEnv();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const app = new Hono();
const mix = (id) => fetch('http://mixer/' + id, { method: 'PUT', signal: AbortSignal.timeout(9_000) });
app.get('/mix/:id', async (c) => {
  const [id, token] = [c.req.param('id'), randomUUID()];
  if ((await redis.set('mix:' + id, token, { nx: true, px: 30_000 })) !== 'OK') return c.json({}, 409);
  try { ${work} } finally { await redis.eval(UNLOCK, ['mix:' + id], [token]); }
});
export default app;`;
  expect(await idsOf(text('return stream(c, async (out) => { await out.write(await mix(id)); });'))).toEqual([
    'releases-early',
  ]);
  expect(await idsOf(text('const mixed = await mix(id); return stream(c, (out) => out.write(mixed));'))).toEqual([]);
});

/** A plugin whose hooks lock a request by what its route says, with a route. */
const hooked = (before: string, after: string): string => `import { randomUUID } from 'node:crypto';
import Fastify, { type FastifyInstance } from 'fastify';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
const redis = new Redis(process.env.REDIS_URL!), pool = new Pool();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
function locks(app: FastifyInstance): void {
  app.decorateRequest('lock', null);
  app.addHook('preHandler', async (req: any, reply) => {
    const name = req.routeOptions.config.lock?.(req);
    if (!name) return;
    const lock = { key: 'lock:' + name, token: randomUUID() };
    ${before}
    if ((await redis.set(lock.key, lock.token, 'PX', 20_000, 'NX')) !== 'OK') return reply.code(409).send({ error: 'busy' });
    req.lock = lock;
  });
  app.addHook('onSend', async (req: any, _reply, payload) => {
    ${after}
    return payload;
  });
}
export function build(): FastifyInstance {
  const app = Fastify();
  locks(app);
  app.post('/ships/:id/dock', { config: { lock: (req) => 'ship:' + req.params.id } }, async (req: any) => {
    await pool.query('UPDATE ships SET docked = true WHERE id = $1', [req.params.id]);
    return { docked: true };
  });
  return app;
}`;

it('plays the hooks of an application around its handlers', async () => {
  const compares = 'if (req.lock) await redis.eval(UNLOCK, 1, req.lock.key, req.lock.token);';
  const { ids, understood } = await audited(hooked('', compares));
  expect(understood).toContain('build.post /ships/:id/dock');
  expect(understood).toContain('"lock:ship:a"');
  expect(ids).toEqual([]);
  expect(
    await idsOf(hooked('req.lock = lock;', compares.replace(/redis\.eval.*\);/, 'redis.del(req.lock.key);'))),
  ).toEqual(['refused-release']);
});

/** A plugin with hooks that have callbacks, for the routes of others. */
const callback = (checked: string): string => `import { randomUUID } from 'node:crypto';
import fp from 'fastify-plugin';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export default fp(function (fastify, opts, done) {
  const held = new WeakMap();
  fastify.addHook('onRequest', (req, reply, next) => {
    const key = 'order:' + req.params.orderId, token = randomUUID();
    fastify.redis.set(key, token, 'PX', 30_000, 'NX').then((set) => {
      ${checked}
      held.set(req, { key, token });
      next();
    }, next);
  });
  fastify.addHook('onResponse', (req, reply, next) => {
    const lock = held.get(req);
    if (!lock) return next();
    fastify.redis.eval(UNLOCK, 1, lock.key, lock.token).then(() => next(), next);
  });
  done();
});`;

it('does work between the hooks of a plugin', async () => {
  const { ids, understood } = await audited(
    callback("if (set !== 'OK') { reply.code(423).send(); return; }"),
    0,
    'lock.mjs',
  );
  expect(understood).toContain('request (lock.mjs) runs work under the lock');
  expect(ids).toEqual([]);
  expect(await idsOfModule(callback(''))).toContain('fails-open');
});

/** A route with hooks of its own, and its handler. */
const route = (work: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
const redis = new Redis(process.env.REDIS_URL!), pool = new Pool();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function take(req, reply): Promise<void> {
  const lock = { key: 'ship:' + req.params.id, token: randomUUID() };
  if ((await redis.set(lock.key, lock.token, 'PX', 20_000, 'NX')) !== 'OK') return void reply.code(409).send();
  req.lock = lock;
}
async function give(req): Promise<void> {
  if (req.lock) await redis.eval(UNLOCK, 1, req.lock.key, req.lock.token);
}
export async function shipRoutes(app): Promise<void> {
  app.route({ method: 'POST', url: '/ships/:id/dock', preHandler: [take], onResponse: give, handler: async (req, reply) => { ${work} } });
}`;

it('releases in a hook when a handler answers, though its work goes on', async () => {
  const update = "await pool.query('UPDATE ships SET docked = true WHERE id = $1', [req.params.id]);";
  const { ids, understood } = await audited(route(`${update} return reply.send({ docked: true });`));
  expect(understood).toContain('shipRoutes.route');
  expect(ids).toEqual([]);
  expect(await idsOf(route(`reply.code(202).send(); ${update} ${update}`))).toEqual(['releases-early']);
});

it('finds the routes that a function adds to an application, whatever its name is', async () => {
  const text = (checked: string): string => `${HEAD}
import type { FastifyInstance } from 'fastify';
export async function shipRoutes(app: FastifyInstance): Promise<void> {
  app.put<{ Params: { id: string } }>('/ships/:id', async (req, reply) => {
    const key = 'ship:' + req.params.id, token = randomUUID();
    if ((await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') ${checked}
    try { await db.query('UPDATE ships SET docked = true WHERE id = $1', [req.params.id]); }
    finally { await redis.eval(UNLOCK, 1, key, token); }
    return { docked: true };
  });
}`;
  const { ids, understood } = await audited(text('return reply.code(409).send();'));
  expect(understood).toContain('shipRoutes.put /ships/:id');
  expect(ids).toEqual([]);
  expect(await idsOf(text("req.log.warn('busy');"))).toEqual(['fails-open']);
});

it('uses a function that a plugin adds to its application', async () => {
  const plugin = (released: string): string => `${HEAD}
import type { FastifyInstance } from 'fastify';
export async function lockPlugin(app: FastifyInstance): Promise<void> {
  app.decorate('tryLock', async <T>(name: string, ttlMs: number, work: () => Promise<T>) => {
    const key = 'lock:' + name, token = randomUUID();
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
    try { return { value: await work() }; } finally { ${released} }
  });
}`;
  const { ids, understood } = await audited(plugin('await redis.eval(UNLOCK, 1, key, token);'));
  expect(understood).toContain('lockPlugin.decorate (lock.ts) runs work under the lock');
  expect(ids).toEqual([]);
  expect(await idsOf(plugin('await redis.del(key);'), 20)).toEqual(['blind-release']);
});

it('does not take heartbeat, which a consumer is handed beside its message, for work', async () => {
  const { ids, understood } = await audited(`${HEAD}
import { Kafka, type EachMessagePayload } from 'kafkajs';
export async function onMessage({ message, partition, heartbeat }: EachMessagePayload): Promise<void> {
  const { shipId } = JSON.parse(message.value?.toString() ?? 'null');
  const key = 'ship:' + shipId, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') throw new Error('busy');
  try { await db.query('UPDATE ships SET docked = true WHERE id = $1', [shipId]); }
  finally { await redis.eval(UNLOCK, 1, key, token); }
  await heartbeat();
}
export async function start(): Promise<void> {
  const consumer = new Kafka({ clientId: 'ships', brokers: ['kafka:9092'] }).consumer({ groupId: 'ships' });
  await consumer.run({ eachMessage: onMessage });
}`);
  expect(understood).toContain('does its own work under the lock');
  expect(ids).toEqual([]);
});
