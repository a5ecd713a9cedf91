import { expect, it } from 'vitest';
import { audited } from './testing/audited.js';

const HEAD = `import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';
const redis = Redis.fromEnv();
const GIVE_UP = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const DONE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], 'done', %TTL%) return 1";
async function book(id: string, cents: number): Promise<void> {
  const answer = await fetch(process.env.LEDGER_API + '/book', { method: 'POST', body: JSON.stringify({ id, cents }) });
  if (!answer.ok) throw new Error('not booked');
}
`;

/** A handler of signed requests that are sent again until they are answered by 2xx. */
const webhook = (
  failed: string,
  ttl = "'EX', 604800",
  checked = 'given === wanted',
): string => `${HEAD.replace('%TTL%', ttl)}
export async function POST(request: Request): Promise<Response> {
  const payload = await request.text();
  const given = request.headers.get('x-signature') ?? '';
  const wanted = createHmac('sha256', process.env.SECRET!).update(payload).digest('hex');
  if (!(${checked})) return new Response('unsigned', { status: 401 });
  const event = JSON.parse(payload) as { id: string; type: string; cents: number };
  if (event.type !== 'paid') return new Response(null, { status: 204 });
  const [key, token] = ['event:' + event.id, randomUUID()];
  if ((await redis.set(key, token, { nx: true, ex: 60 })) !== 'OK') return new Response('duplicate', { status: 200 });
  try {
    await book(event.id, event.cents);
    await redis.eval(DONE, [key], [token]);
    return new Response('booked');
  } catch (error) {
    ${failed}
    return new Response('again', { status: 500 });
  }
}`;

const GIVES_UP = 'await redis.eval(GIVE_UP, [key], [token]);';

it.each([
  ['a text', webhook(GIVES_UP)],
  ['bytes', webhook(GIVES_UP, undefined, 'timingSafeEqual(Buffer.from(given), Buffer.from(wanted))')],
])('signs requests for a file that compares signatures as %s', async (_, text) => {
  const { ids, understood } = await audited(text);
  expect(ids).toEqual([]);
  expect(understood).toContain('does its own work under the lock');
});

it('finds that a request whose work has failed is answered as a duplicate when it is sent again', async () => {
  expect((await audited(webhook(''))).ids).toEqual(['kept-on-error']);
});

it('lets pass what is done at most once in a period', async () => {
  const daily = webhook('').replace("'event:' + event.id", "'digest:' + new Date().toISOString().slice(0, 10)");
  expect((await audited(daily)).ids).toEqual([]);
});

it('finds that a mark ends with the claim', async () => {
  expect((await audited(webhook(GIVES_UP, "'KEEPTTL'"))).ids).toEqual(['forgets-done']);
});

/** A plugin that is given an application and adds a handler to it. */
const plugin = (acquire: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface App { post(path: string, handler: (req: { params: { id: string } }, reply: { code(n: number): { send(body?: unknown): unknown } }) => unknown): void }
interface Orders { ship(id: string): Promise<void> }
export default function orders(app: App, { redis, orders }: { redis: Redis; orders: Orders }) {
  app.post('/orders/:id/ship', async (req, reply) => {
    const [key, token] = ['ship:' + req.params.id, randomUUID()];
    ${acquire}
    try { await orders.ship(req.params.id); } finally { await redis.eval(UNLOCK, 1, key, token); }
    return reply.code(200).send();
  });
}`;

it.each([
  ["if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') return reply.code(409).send();", []],
  ["await redis.set(key, token, 'PX', 9000, 'NX');", ['fails-open']],
])('audits handlers that are added to an application: %s', async (acquire, ids) => {
  const found = await audited(plugin(acquire));
  expect(found.understood).toContain('post');
  expect(found.ids).toEqual(ids);
});

/** Work on data in Redis, of which there is none: it asks for the data, and releases the lock. */
const piped = (busy: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
const redis = Redis.fromEnv();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function expirePoints(day: string): Promise<number> {
  const [key, token] = ['expiry:' + day, randomUUID()];
  const replies = await redis.pipeline().set(key, token, { nx: true, ex: 600 }).hset('attempts', { [day]: 'now' }).exec();
  if (${busy}) return 0;
  try {
    const members: string[] = await redis.zrange('due:' + day, 0, -1);
    for (const it of members) await redis.multi().hincrby('balance', it, -1).zrem('due:' + day, it).exec();
    return members.length;
  } finally { await redis.eval(UNLOCK, [key], [token]); }
}`;

it('finds that a refused call asks for the data of its work and releases, as where all replies are taken for one', async () => {
  expect((await audited(piped('!replies'))).ids).toEqual(['fails-open']);
  expect((await audited(piped("replies[0] !== 'OK'"))).ids).toEqual([]);
});
