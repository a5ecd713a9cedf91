import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** Renews a subscription by redlock, and does not look whether the lock is lost before it stores that. */
const renewal = (store: string, stored: string): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
const redlock = new Redlock([new Redis(process.env.REDIS_URL!)], { retryCount: 3, automaticExtensionThreshold: 3_000 });
redlock.on('error', () => {});
interface Subscription { id: string; paidUntil: string; version: number }
interface Store { load(id: string): Promise<Subscription>; ${store}; dueBefore(day: string): Promise<string[]> }
interface Payments { charge(key: string): Promise<void> }
export async function renewOne(id: string, today: string, store: Store, payments: Payments): Promise<void> {
  await redlock.using(['subscription:' + id], 10_000, async () => {
    const it = await store.load(id);
    await payments.charge('renewal:' + id + ':' + it.paidUntil);
    ${stored}
  });
}
export async function renewDue(today: string, store: Store, payments: Payments): Promise<void> {
  for (const id of await store.dueBefore(today)) await renewOne(id, today, store, payments).catch(() => {});
}`;

it('finds work that goes on when its lock is lost, unless its store refuses what is late by a version', async () => {
  expect(await idsOf(renewal('save(it: Subscription): Promise<void>', 'await store.save(it);'))).toEqual([
    'silent-loss',
  ]);
  const guarded = renewal(
    'save(it: Subscription, ifVersion: number): Promise<boolean>',
    "if (!(await store.save(it, it.version))) throw new Error('changed');",
  );
  expect(await idsOf(guarded)).toEqual([]);
});

/** Work on five nodes by `using`, with this before it stores anything. */
const renewing = (look: string): string => `import Redis from 'ioredis';
import Redlock from 'redlock5';
import axios from 'axios';
import { prisma } from '../db/prisma';
const nodes = (process.env.LOCK_REDIS_URLS ?? '').split(',').map((url) => new Redis(url));
const redlock = new Redlock(nodes, { retryCount: 8, automaticExtensionThreshold: 5_000 });
redlock.on('error', () => {});
export async function renew(id: string, term: number): Promise<void> {
  await redlock.using(['policy:' + id], 30_000, async (signal) => {
    const policy = await prisma.policy.findUniqueOrThrow({ where: { id } });
    if (policy.term >= term) return;
    const { data } = await axios.post(process.env.RATING_URL + '/quotes', { id });
    ${look}
    await prisma.policy.updateMany({ where: { id, term: policy.term }, data: { term, premium: data.premium } });
  });
}`;

it('passes work that redlock tells that its lock is over, where it looks before it stores', async () => {
  expect(await idsOf(renewing('if (signal.aborted) throw signal.error;'), 60)).toEqual([]);
  expect(await idsOf(renewing(''), 60)).not.toEqual([]);
});

/** Asks to lead in each round, and works by a script that compares the leader. */
it('passes a leader that campaigns in each round, and may begin a new term', async () => {
  const text = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const ASK = \`local leader = redis.call('GET', KEYS[1])
if not leader then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end
if leader == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end
return 0\`;
const MOVE = \`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
return redis.call('LPUSH', KEYS[2], ARGV[2])\`;
export class Reminders {
  private readonly id = randomUUID();
  private stopped = false;
  private loop: Promise<void> | undefined;
  constructor(private readonly redis: Redis) {}
  start(): void { this.loop ??= this.run(); }
  async stop(): Promise<void> { this.stopped = true; await this.loop; }
  private async run(): Promise<void> {
    while (!this.stopped) {
      const leads = (await this.redis.eval(ASK, 1, 'leader', this.id, 10_000)) === 1;
      if (leads) await this.redis.eval(MOVE, 2, 'leader', 'outbox', this.id, 'due');
      await new Promise((done) => setTimeout(done, 2_000));
    }
  }
}`;
  expect(await idsOf(text)).toEqual([]);
});

it('takes what the term of a leader stores for data, also where its process has been asked again', async () => {
  const text = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
interface Catalog { changedSince(cursor: string): Promise<{ docs: object[]; cursor: string }> }
export class Reindexer {
  private readonly id = randomUUID();
  private readonly redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 3_000 });
  private term: AbortController | null = null;
  private beating = false;
  constructor(private readonly catalog: Catalog) { this.redis.on('error', () => {}); }
  start(): void { setInterval(() => void this.beat(), 5_000); void this.beat(); }
  private async beat(): Promise<void> {
    if (this.beating) return;
    this.beating = true;
    try {
      if (this.term !== null) {
        if ((await this.redis.eval(EXTEND, 1, 'leader', this.id, 15_000)) !== 1) this.stepDown();
      } else if ((await this.redis.set('leader', this.id, 'PX', 15_000, 'NX')) === 'OK') {
        this.term = new AbortController();
        void this.reindex(this.term.signal);
      }
    } catch { this.stepDown(); } finally { this.beating = false; }
  }
  private stepDown(): void { this.term?.abort(); this.term = null; }
  private async reindex(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { docs, cursor } = await this.catalog.changedSince((await this.redis.get('cursor').catch(() => null)) ?? '0');
      if (docs.length > 0 && !signal.aborted) await this.redis.set('cursor', cursor).catch(() => {});
      else await new Promise((done) => setTimeout(done, 10_000));
    }
  }
}`;
  expect(await idsOf(text, 60)).toEqual([]);
});

/** Takes refunds from a list, each under the lock of its order; \`outside\` is read before that. */
const refunds = (outside: string, inside: string, one = ''): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Orders { load(id: string): Promise<{ total: number }>; setTotal(id: string, cents: number): Promise<void> }
export class Refunds {
  constructor(private readonly redis: Redis, private readonly orders: Orders) {}
  async run(stop: AbortSignal): Promise<void> {
    for (const item of await this.redis.lrange('refunds:now', 0, -1)) await this.redis.lpush('refunds', item);
    while (!stop.aborted) {
      const item = await this.redis.blmove('refunds', 'refunds:now', 'RIGHT', 'LEFT', 5);
      if (item === null) continue;
      const [id = '', cents${one}] = item.split('/');
      const [key, token] = ['refund:' + id, randomUUID()];
      ${outside}
      if ((await this.redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') { await this.redis.lpush('refunds', item); continue; }
      try {
        ${inside}
        await this.orders.setTotal(id, Number(total) + Number(cents));
        await this.redis.lrem('refunds:now', 1, item);
      } finally { await this.redis.eval(UNLOCK, 1, key, token); }
    }
  }
}`;

it('tells what a consumer reads under the lock of one message from what it reads before that of the next', async () => {
  const reads = 'const { total } = await this.orders.load(id);';
  expect(await idsOf(refunds('', reads))).toEqual([]);
  expect(await idsOf(refunds(reads, '', " = '1'"))).toEqual(['reads-before-lock']);
});
