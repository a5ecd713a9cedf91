import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;

/** A lock of 20 s around a request to another server, and what it stores after that. */
const importer = ({
  limitMs = 45_000,
  before = '',
  release = 'await redis.eval(UNLOCK, 1, key, token);',
}): string => `${HEAD}
const read = async (shop: string): Promise<string> => {
  const answer = await fetch(process.env.SHOP_API + '/stock/' + shop, { signal: AbortSignal.timeout(${limitMs}) });
  if (!answer.ok) throw new Error('no stock');
  return answer.text();
};
export async function importStock(shop: string): Promise<void> {
  const [key, token, atMs] = ['import:' + shop, randomUUID(), Date.now()];
  if ((await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') return;
  try {
    const stock = await read(shop);
    ${before}
    await redis.hincrby('stock:' + shop, 'items', stock.length);
  } finally { ${release} }
}`;

it('finds a time limit that is longer than the TTL, after which the work goes on', async () => {
  const { ids } = await audited(importer({}));
  expect(ids).toEqual(['work-outlasts-ttl']);
});

it.each([
  ['is shorter', importer({ limitMs: 12_000 })],
  [
    'is longer, where the work looks at the time',
    importer({ before: "if (Date.now() - atMs > 15_000) throw new Error('late');" }),
  ],
  ['is longer, where the key is that of a guard', importer({ release: '' })],
])('lets a time limit pass that %s', async (_, text) => {
  expect(await idsOf(text)).toEqual([]);
});

it('lets pass a cache that is filled late', async () => {
  const text = `${HEAD}
/** Cached for ten minutes. */
export async function rates(market: string): Promise<string> {
  const [key, token] = ['rates:' + market, randomUUID()];
  const cached = await redis.get(key);
  if (cached !== null) return cached;
  if ((await redis.set(key + ':lock', token, 'PX', 5_000, 'NX')) !== 'OK') throw new Error('try again');
  try {
    const answer = await fetch(process.env.RATES_API + '/' + market, { signal: AbortSignal.timeout(15_000) });
    const fresh = await answer.text();
    await redis.set(key, fresh, 'EX', 600);
    return fresh;
  } finally { await redis.eval(UNLOCK, 1, key + ':lock', token); }
}`;
  expect(await idsOf(text)).toEqual([]);
});

/** A consumer of messages that marks those that it has seen. */
const consumer = (failed: string): string => `${HEAD}
interface Broker { ack(tag: string): Promise<void>; requeue(tag: string): Promise<void> }
interface Register { addResults(sheet: string): Promise<void> }
export class Consumer {
  constructor(private readonly broker: Broker, private readonly register: Register) {}
  async handle(message: { id: string }, tag: string): Promise<void> {
    const key = 'seen:' + message.id;
    if ((await redis.set(key, '1', 'EX', 604_800, 'NX')) !== 'OK') return this.broker.ack(tag);
    try { await this.register.addResults(message.id); } catch (error) { ${failed} return this.broker.requeue(tag); }
    await this.broker.ack(tag);
  }
}`;

it('finds that a message whose work has failed is taken for a duplicate when it is delivered again', async () => {
  expect(await idsOf(consumer(''))).toEqual(['kept-on-error']);
});

it('lets a message pass whose mark is deleted when its work has failed', async () => {
  expect(await idsOf(consumer('await redis.del(key);'))).not.toContain('kept-on-error');
});

it('has a file give its clients commands of its own, one client or all nodes', async () => {
  const commands = `node.defineCommand('unlock', { numberOfKeys: 1, lua: UNLOCK });`;
  const type = `type Node = Redis & { unlock(key: string, token: string): Promise<number> };`;
  const head = HEAD.replace(/const redis.*\n/, '');
  const one = `${head}${type}
export function store(url = process.env.REDIS_URL!): Node { const node = new Redis(url) as Node; ${commands} return node; }
export async function tidy(node: Node, files: { remove(shelf: string): Promise<void> }, shelf: string): Promise<void> {
  const [key, token] = ['tidy:' + shelf, randomUUID()];
  if ((await node.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;
  try { await files.remove(shelf); } finally { await node.unlock(key, token); }
}`;
  await expect(audited(one)).resolves.toMatchObject({ ids: [] });
  const all = `${head}${type}
export function shelves(urls = (process.env.SHELF_URLS ?? '').split(',')): Node[] {
  return urls.map((url) => { const node = new Redis(url, { maxRetriesPerRequest: 0, commandTimeout: 500 }) as Node; ${commands} return node; });
}
export async function lease(nodes: readonly Node[], shelf: string): Promise<{ release(): Promise<void> }> {
  const [key, token, atMs] = ['tidy:' + shelf, randomUUID(), performance.now()];
  const release = async (): Promise<void> => void (await Promise.allSettled(nodes.map((it) => it.unlock(key, token))));
  const votes = await Promise.allSettled(nodes.map((it) => it.set(key, token, 'PX', 30_000, 'NX')));
  const granted = votes.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
  if (granted > nodes.length / 2 && performance.now() - atMs < 10_000) return { release };
  await release();
  throw new Error('busy');
}`;
  const { ids, understood } = await audited(all, 10);
  expect(ids).toEqual([]);
  expect(understood).not.toContain('it never deletes its key');
});

it('connects a client that a file exports, and that others are to connect', async () => {
  const text = `import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
export const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
export async function withLock<T>(name: string, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  if ((await redis.set(name, token, { NX: true, PX: 30_000 })) !== 'OK') throw new Error('busy');
  try { return await work(); } finally {
    await redis.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", { keys: [name], arguments: [token] });
  }
}`;
  await expect(audited(text)).resolves.toMatchObject({ ids: [] });
});

it('sends the body of a request in pieces', async () => {
  const text = `${HEAD}
import type { IncomingMessage, ServerResponse } from 'node:http';
interface Register { file(person: string): Promise<void> }
export function handler(register: Register) {
  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    if (req.method !== 'POST') return void res.writeHead(405).end();
    let raw = '';
    for await (const chunk of req) raw += chunk.toString();
    const it = JSON.parse(raw);
    if (typeof it.person !== 'string' || !Number.isInteger(it.size)) { res.writeHead(422).end(); return; }
    const [key, token] = ['file:' + it.person, randomUUID()];
    if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') { res.writeHead(409).end(); return; }
    try { await register.file(it.person); } finally { await redis.eval(UNLOCK, 1, key, token); }
    res.writeHead(201).end();
  };
}`;
  await expect(audited(text)).resolves.toMatchObject({ ids: [] });
});
