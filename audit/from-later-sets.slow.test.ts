import { expect, it } from 'vitest';
import { audited, idsOf, idsOfModule } from './testing/audited.js';

/** A roster that is published under a lock, or after one. */
const roster = (ends: string, last: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
class RosterLock implements AsyncDisposable {
  private constructor(private readonly redis: Redis, readonly key: string, private readonly token: string) {}
  static async acquire(redis: Redis, key: string): Promise<RosterLock> {
    const token = randomUUID();
    if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') throw new Error('busy');
    return new RosterLock(redis, key, token);
  }
  async [Symbol.asyncDispose](): Promise<void> { await this.redis.eval(UNLOCK, 1, this.key, this.token); }
}
export async function publish(redis: Redis, pool: Pool, ward: string, options: { dryRun?: boolean } = {}): Promise<void> {
  if (!options.dryRun) {
    await using lock = await RosterLock.acquire(redis, 'roster:' + ward);
    console.info('publishing', lock.key);
  ${ends}
  const { rows } = await pool.query('SELECT nurse FROM shifts WHERE ward = $1', [ward]);
  await pool.query('INSERT INTO rosters (ward, nurses) VALUES ($1, $2)', [ward, rows.length]);
  ${last}
}`;

it('finds a lock that is released before anything is done', async () => {
  expect(await idsOf(roster('}', ''))).toEqual(['releases-early']);
  expect(await idsOf(roster('', '}'))).toEqual([]);
});

/** Payouts of a service that may be given a TTL, and has one. */
const payouts = (ttlMs: number): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
interface PayoutOptions { lockTtlMs: number; prefix: string }
const DEFAULTS: PayoutOptions = { lockTtlMs: ${ttlMs}, prefix: 'payout:' };
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class PayoutService {
  private readonly options: PayoutOptions;
  constructor(private readonly redis: Redis, private readonly db: PayoutsDb, options: Partial<PayoutOptions> = {}) {
    this.options = { ...DEFAULTS, ...options };
  }
  async execute(payout: string): Promise<void> {
    const [key, token] = [this.options.prefix + payout, randomUUID()];
    if ((await this.redis.set(key, token, 'PX', this.options.lockTtlMs, 'NX')) !== 'OK') throw new Error('busy');
    try {
      const response = await fetch('https://bank.example/transfers', { method: 'POST', body: payout, signal: AbortSignal.timeout(15_000) });
      if (!response.ok) throw new Error('refused');
      await this.db.markSent(payout);
    } finally { await this.redis.eval(UNLOCK, 1, key, token); }
  }
}`;

it('judges work by the TTL that it has where it is given none', async () => {
  expect(await idsOf(payouts(90_000))).toEqual([]);
  expect(await idsOf(payouts(10_000))).toEqual(['work-outlasts-ttl']);
});

/** Locks of readers and of writers, by functions that give functions. */
const readWrite = (reads: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const TAKE = {
  read: "${reads} redis.call('ZADD', KEYS[2], ARGV[3] + ARGV[2], ARGV[1]) redis.call('PEXPIRE', KEYS[2], ARGV[2]) return 1",
  write: "redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[3]) if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0",
};
const DROP = {
  read: "return redis.call('ZREM', KEYS[2], ARGV[1])",
  write: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
};
export const rwlock = (redis: Redis, { ttl = 10_000 } = {}) => {
  const guard = (mode: 'read' | 'write') => (name: string) => async <T>(body: () => Promise<T>): Promise<T> => {
    const [keys, id] = [['rw:{' + name + '}:w', 'rw:{' + name + '}:r'], randomUUID()];
    if ((await redis.eval(TAKE[mode], 2, ...keys, id, ttl, Date.now())) !== 1) throw new Error('busy');
    try { return await body(); } finally { await redis.eval(DROP[mode], 2, ...keys, id); }
  };
  return { reading: guard('read'), writing: guard('write') };
};`;

it('takes what is writing for what excludes those that are reading', async () => {
  const { ids, understood } = await audited(readWrite("if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end"));
  expect(ids).toEqual([]);
  expect(understood).toContain('rwlock.reading is for those who only read');
  expect(await idsOf(readWrite(''), 60)).not.toEqual([]);
});

/** A lock in four functions, each of which gives the next one; its work may be given up at a time limit. */
const curried = (work: string): string => `import { randomUUID } from 'node:crypto';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export const mutex = (client) => (ttl) => (name) => async (fn) => {
  const [key, token] = ['mutex:' + name, randomUUID()];
  if ((await client.set(key, token, 'PX', ttl, 'NX')) !== 'OK') return null;
  try { return await ${work}; } finally { await client.eval(UNLOCK, 1, key, token); }
};`;

it('uses a lock of four functions that are called one after the other', async () => {
  expect(await idsOfModule(curried('fn()'))).toEqual([]);
  const late = 'Promise.race([fn(), new Promise((_, fail) => setTimeout(() => fail(new Error()), ttl * 0.8))])';
  expect(await idsOfModule(curried(late))).toEqual(['releases-early']);
});

/** Orders that are loaded page by page, and how far that is. */
const backfill = (looks: string): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import { table } from './warehouse.js';
const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 0 });
async function* pages(cursor) {
  for (;;) {
    const body = await (await fetch(process.env.SHOP_API + '/orders?after=' + cursor)).json();
    if (!body.orders.length) return;
    cursor = body.orders.at(-1).id;
    yield { orders: body.orders, cursor };
  }
}
export async function backfillOrders() {
  const lock = await redlock.acquire(['backfill:orders'], 30_000);
  let [total, until] = [0, Date.now() + 20_000];
  try {
    for await (const page of pages(await redis.get('orders:at'))) {
      ${looks}
      await table.insert(page.orders.map((it) => ({ id: it.id, payload: JSON.stringify(it) })));
      await redis.set('orders:at', page.cursor);
      total += page.orders.length;
      if (total % 1_000 === 0) console.log(total);
    }
  } finally { await lock.release(); }
}`;

it('takes no import for a cache because it keeps how far it is, and goes through long pages in time', async () => {
  expect(await idsOfModule(backfill(''))).toEqual(['work-outlasts-ttl']);
  expect(await idsOfModule(backfill('if (Date.now() > until) break;'))).toEqual([]);
});

/** Events of a provider, which sends those again that were not done. */
const events = (failed: string): string => `import { Redis } from '@upstash/redis';
export class Intake {
  constructor(private readonly redis: Redis, private readonly orders: OrderWorkflow) {}
  handler = async (req: Request, res: Response): Promise<void> => {
    const event = req.body as { id: string; type: string; data: { order: string } };
    if ((await this.redis.set('event:' + event.id, 'claimed', { nx: true, ex: 86_400 })) !== 'OK') {
      res.status(200).json({ duplicate: true });
      return;
    }
    try {
      await this.dispatch(event);
      res.status(200).json({ received: true });
    } catch { ${failed} res.status(500).json({ error: 'later' }); }
  };
  private async dispatch({ type, data }: { type: string; data: { order: string } }): Promise<void> {
    switch (type) {
      case 'order.paid': return this.orders.markPaid(data.order);
      case 'order.refunded': return this.orders.refund(data.order);
      default: throw new Error('unknown');
    }
  }
}`;

it('sends an event of a kind for which something is done', async () => {
  expect(await idsOf(events(''))).toEqual(['kept-on-error']);
  expect(await idsOf(events("await this.redis.del('event:' + event.id);"))).not.toContain('kept-on-error');
});

/** Events of parcels, which come once each. */
const parcels = (busy: string, id = 'parcelId'): string => `import { randomUUID } from 'node:crypto';
import { Job, Worker } from 'bullmq';
import Redis from 'ioredis';
import { parcels } from './parcels.js';
interface ParcelEvent { ${id}: string; code: 'SENT' | 'DELIVERED'; at: string; place?: string }
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function handle(job: Job<ParcelEvent>) {
  const [key, token] = ['parcel:' + job.data.${id}, randomUUID()];
  if (!(await redis.set(key, token, 'PX', 30_000, 'NX'))) ${busy}
  try { await parcels.apply(job.data); } finally { await redis.eval(UNLOCK, 1, key, token); }
}
export const worker = new Worker<ParcelEvent>('parcel-events', handle, { connection: redis });`;

it('finds an event of a queue that is taken for done while another one has the lock', async () => {
  expect(await idsOf(parcels('return { skipped: true };'))).toEqual(['drops-busy']);
  expect(await idsOf(parcels("throw new Error('busy');"))).toEqual([]);
  expect(await idsOf(parcels('return { skipped: true };', 'eventId'))).toEqual([]);
});

/** A procedure of tRPC, and tiles of a package that is not installed. */
const procedure = `import { initTRPC } from '@trpc/server';
import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import geojsonvt from 'geojson-vt';
import { tiles } from './tiles.js';
const t = initTRPC.create();
const redis = new Redis(process.env.REDIS_URL!);
export const router = t.router({
  build: t.procedure.mutation(async ({ input }) => {
    const index = geojsonvt(input.features);
    const mutex = new Mutex(redis, 'tiles:' + input.region, { lockTimeout: 30_000, refreshInterval: 8_000 });
    await mutex.acquire();
    try { await tiles.store(input.region, index); } finally { await mutex.release(); }
  }),
});`;

it('uses a procedure of tRPC', async () => {
  const { ids, understood } = await audited(procedure);
  expect(ids).toEqual([]);
  expect(understood).toContain('mutation');
});
