import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;

const taken = (work: string): string => `await locked(this.redis, 'stock:' + sku, async () => { ${work} });`;

/** A service above a database whose transactions run what they are handed. */
const service = (place: string): string => `${HEAD}
interface Tx { onHand(sku: string): Promise<number>; setOnHand(sku: string, n: number): Promise<void> }
interface Database { transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> }
async function locked(redis: Redis, key: string, work: () => Promise<void>): Promise<void> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
  try { await work(); } finally { await redis.eval(UNLOCK, 1, key, token); }
}
export class Stock {
  constructor(private readonly db: Database, private readonly redis: Redis) {}
  async take(sku: string): Promise<void> { ${place} }
}`;

const CHANGES = 'await tx.setOnHand(sku, (await tx.onHand(sku)) - 1);';

it('finds that a lock is released before its transaction is committed', async () => {
  expect(await idsOf(service(`await this.db.transaction(async (tx) => { ${taken(CHANGES)} });`))).toEqual([
    'released-before-commit',
  ]);
});

it('lets pass one that is held for the whole transaction', async () => {
  expect(await idsOf(service(taken(`await this.db.transaction(async (tx) => { ${CHANGES} });`)))).toEqual([]);
});

/** Callbacks of Node's style, of a store that is handed over. */
const CALLBACKS = `${HEAD}
export function book(deps: { redis: Redis; store: { get(id: string, done: (error: unknown, found?: { customer?: string }) => void): void; put(id: string, it: object, done: (error: unknown) => void): void } }, seat: string, customer: string): Promise<string> {
  const [key, token] = ['seat:' + seat, randomUUID()];
  return deps.redis.set(key, token, 'PX', 9000, 'NX').then((reply) => {
    %REFUSED%
    return new Promise<string>((resolve, reject) => {
      deps.store.get(key, (error, found) => {
        if (error) return reject(error);
        if (found && found.customer) return resolve('taken');
        deps.store.put(key, { customer }, (err) => (err ? reject(err) : resolve('booked')));
      });
    }).finally(() => deps.redis.eval(UNLOCK, 1, key, token));
  });
}`;

it.each([
  ["if (reply !== 'OK') throw new Error('busy');", []],
  ['', ['fails-open']],
])('calls the callbacks that it is handed: %s', async (refused, ids) => {
  expect(await idsOf(CALLBACKS.replace('%REFUSED%', refused))).toEqual(ids);
});

/** A method with a decorator, whose lock is that of its whole process, or of a call. */
const decorated = (token: string): string => `${HEAD}
const OWNER = randomUUID();
function exclusive(_: object, __: string, descriptor: PropertyDescriptor) {
  const work = descriptor.value;
  descriptor.value = async function (this: { redis: Redis }, id: string, ...rest: unknown[]) {
    const [key, token] = ['lock:' + id, ${token}];
    for (;;) {
      if ((await this.redis.set(key, token, 'PX', 9000, 'NX')) === 'OK') break;
      if ((await this.redis.get(key)) === token) return work.call(this, id, ...rest);
      await new Promise((done) => setTimeout(done, 50));
    }
    try { return await work.call(this, id, ...rest); } finally { await this.redis.eval(UNLOCK, 1, key, token); }
  };
  return descriptor;
}
export class Points {
  constructor(public readonly redis: Redis) {}
  @exclusive
  async earn(id: string, points: number): Promise<void> {
    const before = Number((await this.redis.get('points:' + id)) ?? 0);
    await this.redis.set('points:' + id, before + points);
  }
}`;

it.each([
  ['OWNER', ['lets-tasks-in']],
  ['randomUUID()', []],
])('knows whether two calls of one process are kept apart by %s', async (token, ids) => {
  expect(await idsOf(decorated(token))).toEqual(ids);
});

/** Its client is made by another function of the file, which adds commands to it. */
const ADDS_COMMANDS = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
declare module 'ioredis' { interface RedisCommander<Context> { unlock(key: string, token: string): Promise<number> } }
export function stockRedis(url = process.env.REDIS_URL!): Redis {
  const redis = new Redis(url);
  redis.defineCommand('unlock', { numberOfKeys: 1, lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0" });
  return redis;
}
export async function count({ redis, scale }: { redis: Redis; scale: { read(bin: string): Promise<number> } }, bin: string): Promise<number> {
  const [key, token] = ['bin:' + bin, randomUUID()];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
  try { return await scale.read(bin); } finally { await redis.unlock(key, token); }
}`;

it('hands over the client that the file makes where that has commands of its own', async () => {
  expect(await idsOf(ADDS_COMMANDS)).toEqual([]);
});

/** It is handed an instance of redlock. */
const handed = (failed: string): string => `import type Redlock from 'redlock5';
export class Prices {
  constructor(private readonly redlock: Redlock, private readonly book: { put(sku: string): Promise<void> }) {}
  async reprice(sku: string): Promise<void> {
    const lock = await this.redlock.acquire(['price:' + sku], 9000)${failed};
    try { await this.book.put(sku); } finally { await lock?.release(); }
  }
}`;

it.each([
  ['', []],
  ['.catch(() => null)', ['fails-open']],
])('hands over an instance of redlock: %s', async (failed, ids) => {
  expect(await idsOf(handed(failed))).toEqual(ids);
});

/** The same as a decorator of the language, which gives a function. */
const STANDARD = `${HEAD}
type Method = (this: { redis: Redis }, id: string, ...rest: unknown[]) => Promise<unknown>;
function exclusive(method: Method, context: ClassMethodDecoratorContext) {
  return async function (this: { redis: Redis }, id: string, ...rest: unknown[]) {
    const [key, token] = [String(context.name) + ':' + id, randomUUID()];
    if ((await this.redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
    try { %RETURNED% } finally { await this.redis.eval(UNLOCK, 1, key, token); }
  };
}
interface Orders { ship(id: string): Promise<void>; close(id: string): Promise<void> }
export class Shipping {
  constructor(readonly redis: Redis, private readonly orders: Orders) {}
  @exclusive
  async ship(id: string): Promise<void> {
    await this.orders.ship(id);
    await this.orders.close(id);
  }
}`;

it.each([
  ['return await method.call(this, id, ...rest);', []],
  ['return method.call(this, id, ...rest);', ['releases-early']],
])('applies decorators of the language: %s', async (returned, ids) => {
  expect(await idsOf(STANDARD.replace('%RETURNED%', returned))).toEqual(ids);
});

/** A lock that its whole process remembers. */
const paying = (known: string): string => `${HEAD}
const held = new Map<string, string>();
async function lock(redis: Redis, key: string): Promise<boolean> {
  ${known}
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') return false;
  held.set(key, token);
  return true;
}
interface Deps { redis: Redis; bank: { pay(id: string): Promise<void>; note(id: string): Promise<void> } }
export async function pay({ redis, bank }: Deps, id: string): Promise<void> {
  const key = 'pay:' + id;
  if (!(await lock(redis, key))) throw new Error('busy');
  try { await bank.pay(id); await bank.note(id); } finally {
    const token = held.get(key);
    held.delete(key);
    await redis.eval(UNLOCK, 1, key, token ?? '');
  }
}`;

it.each([
  ['if (held.has(key)) return true;', ['lets-tasks-in']],
  ['if (held.has(key)) return false;', []],
])('knows whether a process lets in who asks while it has the lock: %s', async (known, ids) => {
  expect(await idsOf(paying(known))).toEqual(ids);
});

/** An election whose two calls share one loop, which is begun again by neither. */
const ELECTION = `${HEAD}
interface Store { sweep(): Promise<number> }
export class Sweeper {
  private token: string | null = null;
  private timer: NodeJS.Timeout | undefined;
  private goodUntil = 0;
  private busy = false;
  constructor(private readonly redis: Redis, private readonly store: Store) {}
  get isLeader(): boolean { return this.token !== null && performance.now() < this.goodUntil; }
  start(): void { const loop = () => void this.tick().catch(() => {}); loop(); this.timer = setInterval(loop, 2000); }
  private async tick(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      const until = performance.now() + 8000;
      const token = this.token ?? randomUUID();
      const kept = this.token === null
        ? (await this.redis.set('sweeper', token, 'PX', 9000, 'NX')) === 'OK'
        : (await this.redis.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 9000) end return 0", 1, 'sweeper', token)) === 1;
      this.token = kept ? token : null;
      if (kept) this.goodUntil = until;
      if (this.isLeader) await this.store.sweep();
    } finally { this.busy = false; }
  }
  async stop(): Promise<void> {
    clearInterval(this.timer);
    const { token } = this;
    this.token = null;
    if (token !== null) await this.redis.eval(UNLOCK, 1, 'sweeper', token);
  }
}`;

it('lets pass an election that is started twice', async () => {
  expect(await idsOf(ELECTION)).toEqual([]);
});

it('has bytes where a function asks for these, so that its work is done', async () => {
  const signing = (place: string): string => `${HEAD}
import { createHash } from 'node:crypto';
interface Database { transaction<T>(work: (tx: { query(text: string, values: unknown[]): Promise<{ rows: { hash: string }[] }> }) => Promise<T>): Promise<T> }
export class Chain {
  constructor(private readonly db: Database, private readonly redis: Redis) {}
  async append(id: string, document: Uint8Array): Promise<void> { ${place} }
  private async locked(id: string, work: () => Promise<void>): Promise<void> {
    const token = randomUUID();
    if ((await this.redis.set('chain:' + id, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
    try { await work(); } finally { await this.redis.eval(UNLOCK, 1, 'chain:' + id, token); }
  }
}`;
  const adds = `const { rows } = await tx.query('SELECT hash FROM chain WHERE id = $1', [id]);
    const hash = createHash('sha256').update(rows[0]?.hash ?? '').update(document).digest('hex');
    await tx.query('INSERT INTO chain (id, hash) VALUES ($1, $2)', [id, hash]);`;
  const within = `await this.db.transaction(async (tx) => this.locked(id, async () => { ${adds} }));`;
  const around = `await this.locked(id, async () => this.db.transaction(async (tx) => { ${adds} }));`;
  expect(await idsOf(signing(within))).toEqual(['released-before-commit']);
  expect(await idsOf(signing(around))).toEqual([]);
});
