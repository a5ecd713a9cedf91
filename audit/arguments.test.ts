import { expect, it } from 'vitest';
import { argumentsFor } from './arguments.js';
import type { Given } from './given.js';
import { readSource } from './shapes.js';

const GIVEN: Given = {
  key: 'a',
  ttlMs: 7_000,
  token: 'token',
  clients: () => ['client 0', 'client 1'],
  urls: ['redis://n0:6379', 'redis://n1:6379'],
  places: ['n0:6379', 'n1:6379'],
  library: null,
  unitMs: 1,
  isAcquiring: true,
};

/** What the function in a file is called with for a resource, as JSON has it. */
function given(text: string, key = 'a'): unknown {
  const [shape] = readSource(text, 'lock.ts').shapes;
  return JSON.parse(JSON.stringify(argumentsFor(shape?.parameters ?? [], { ...GIVEN, key })));
}

const ADDRESS = { url: 'redis://n0:6379', host: 'n0', port: 6379, socket: { host: 'n0', port: 6379 } };

it.each([
  [
    'interface Job { id: string; data: { userId: string; paid: boolean } }\nfunction run(job: Job) {}',
    [{ id: 'b', data: { userId: 'b', paid: false } }],
  ],
  ['function run(order) { return order.orderId + order.customer.id; }', [{ orderId: 'b', customer: { id: 'b' } }]],
  ['function run(job) { const { name, data: { id } } = job; }', [{ name: 'b', data: { id: 'b' } }]],
  [
    "type Level =\n  | 'info'\n  | 'high';\ninterface Alert { id: string; level: Level }\nfunction run(alert: Alert) {}",
    [{ id: 'b', level: 'info' }],
  ],
  ['function take({ limit, permitMs }) {}', [{ limit: 1, permitMs: 7_000 }]],
  ['function run(key, redisHost, redisPort, redisUrl) {}', ['b', 'n0', 6379, 'redis://n0:6379']],
  [
    'function take(key, server) { return send([key, 1], server); }\nfunction send(words, { host, port }) {}',
    ['b', { host: 'n0', port: 6379 }],
  ],
  ['function take({ limit, permitMs = 120_000 }) {}', [{ limit: 1 }]],
  // A text names a month, and a number says how long a slot is.
  ['function once(name: string, period: number) {}', ['b', 25_000]],
  ['function lockAll(names: Iterable<string>) {}', [['b']]],
  // Whose lock it is says nothing of which lock it is.
  ['function lock({ key, owner }) {}', [{ key: 'b', owner: 'token' }]],
  ['function lock({ id, ttlMs }) {}', [{ id: 'b', ttlMs: 7_000 }]],
  // Where nothing is said of any, the first.
  ['function lock(campaign, batch) {}', ['b', 'a']],
  ['function run(req: Req) {}\ninterface Req { id: string; header(name: string): string }', [{ id: 'b' }]],
  // What is asked of any text makes no object of it.
  ['function lock(name) { return name.trim().length + name.length; }', ['b']],
])('says which resource is meant: %s', (text, expected) => expect(given(text, 'b')).toEqual(expected));

it.each([
  [
    'function make({ host, port, ttlSeconds }: { host: string; port: number; ttlSeconds: number }) {}',
    [{ host: 'n0', port: 6379, ttlSeconds: 7 }],
  ],
  ['function make(redis) { return new Redis(redis); }', [ADDRESS]],
  ['function make(config: { redis: RedisOptions; db: number }) {}', [{ redis: ADDRESS }]],
  ['function make(redis) { return redis.set; }', ['client 0']],
])('says where the servers are: %s', (text, expected) => expect(given(text)).toEqual(expected));

it('lets one hold where it says how many may, and leaves the environment as it is', () => {
  expect(given('function take(key: string, { permits = 4 }: { permits?: number } = {}) {}')).toEqual([
    'a',
    { permits: 1 },
  ]);
  expect(given('function make(env = process.env, key: string) {}')).toEqual([null, 'a']);
});

it('gives another number to another resource', () => {
  const text = 'function lock(userId: number) {}';
  expect(given(text, 'a')).toEqual(given(text, 'a'));
  expect(given(text, 'a')).not.toEqual(given(text, 'b'));
});

it('gives what a function has by its type: a promise of a number, of a text, or of what is not known', async () => {
  const text = `interface Shop { stock(): Promise<number>; label(): Promise<string | null>; open(): Promise<Order> }
function sell(shop: Shop) {}`;
  const [shape] = readSource(text, 'lock.ts').shapes;
  const [shop] = argumentsFor(shape?.parameters ?? [], GIVEN) as [Record<string, () => unknown>];
  const given = [shop.stock?.(), shop.label?.(), shop.open?.()];
  expect(given.every((it: unknown) => it instanceof Promise)).toBe(true);
  const [stock, label, order] = await Promise.all(given);
  expect([stock, label, typeof order]).toEqual([1, 'a', 'function']);
});

it.each([
  ['export function GET(request: Request) { return new URL(request.url); }', 'https://other.example/b?image=b'],
  ['function GET(req) { return new URL(req.url, "http://localhost"); }', 'https://other.example/b?image=b'],
])('asks for a resource by the URL of a request: %s', (text, url) => {
  const [shape] = readSource(text, 'lock.ts').shapes;
  const [request] = argumentsFor(shape?.parameters ?? [], { ...GIVEN, key: 'b', queries: ['image'] });
  expect(request).toMatchObject({ url });
});

it('hands out a node to each of several clients that differ in a number', () => {
  const nodes = ['client 0', 'client 1', 'client 2'];
  const of = (text: string): unknown => {
    const [shape] = readSource(text, 'lock.ts').shapes;
    return argumentsFor(shape?.parameters ?? [], { ...GIVEN, clients: () => nodes });
  };
  expect(of('function make(m1: Redis, m2: Redis, m3: Redis) {}')).toEqual(nodes);
  expect(of('function make(nodeA: Redis, nodeB: Redis, nodeC: Redis, key: string) {}')).toEqual([...nodes, 'a']);
  expect(of('function make(redis: Redis, publisher: Redis, subscriber: Redis) {}')).toEqual(Array(3).fill('client 0'));
});
