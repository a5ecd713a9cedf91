import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

interface Audited {
  readonly ids: string[];
  readonly understood: string;
}

/** What using a file shows, by name, and how it was understood. */
async function audited(text: string, runs = 0, name = 'lock.ts'): Promise<Audited> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), name);
  writeFileSync(path, text);
  const { findings, understood } = await auditFile({ path, runs, seed: '', budgetMs: 20_000 }, () => {});
  return { ids: findings.map(({ id }) => id), understood: understood.join(' ') };
}

const HEAD = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
`;

/** A function that does its own work under a lock. */
const paying = (work: string, token = 'randomUUID()'): string => `${HEAD}
const OWNER = randomUUID();
interface Payout { id: string }
interface Bank { open(batch: string): Promise<Payout[]>; transfer(payout: Payout, o?: { signal: AbortSignal }): Promise<string>; save(batch: string): Promise<void> }
export async function pay(redis: Redis, bank: Bank, batch: string) {
  const [key, token] = ['pay:' + batch, ${token}];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    const payouts = await bank.open(batch);
    ${work}
    await bank.save(batch);
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
const ALL = 'await Promise.all(payouts.map((it) => bank.transfer(it)));';
const SETTLED = `const done = await Promise.allSettled(payouts.map((it) => bank.transfer(it)));
    if (done.some(({ status }) => status === 'rejected')) throw new Error('failed');`;
const TOLD = `const stop = new AbortController();
    try { await Promise.all(payouts.map((it) => bank.transfer(it, { signal: stop.signal }))); } catch (error) { stop.abort(); throw error; }`;

it('tells of parts of work that go on when another has failed and the lock is released', async () => {
  expect((await audited(paying(ALL))).ids).toEqual(['releases-early']);
  for (const work of [SETTLED, TOLD, 'for (const it of payouts) await bank.transfer(it);'])
    expect((await audited(paying(work))).ids).toEqual([]);
});

it('tells of a value that all calls of a process store, where a late release deletes the key of the next', async () => {
  expect((await audited(paying('', 'OWNER'))).ids).toEqual(['value-of-process']);
  expect((await audited(paying(''))).ids).toEqual([]);
});

/** A function that gives up after two seconds. */
const waiting = (isOver: string): string => `${HEAD}
interface Board { assign(gate: string): Promise<void> }
export async function assign(redis: Redis, board: Board, gate: string) {
  const [key, token] = ['gate:' + gate, randomUUID()];
  let isOver = false;
  const taken = (async () => {
    while (!(${isOver})) {
      if ((await redis.set(key, token, 'PX', 9000, 'NX')) === 'OK') return true;
      await sleep(100);
    }
    return false;
  })();
  if (!(await Promise.race([taken, sleep(2000)]))) {
    isOver = true;
    throw new Error('busy');
  }
  try { await board.assign(gate); } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it('tells of a call that has given up, gets the lock later, and does not know it', async () => {
  expect((await audited(waiting('false'))).ids).toEqual(['keeps-late-grant']);
  expect((await audited(waiting('isOver'))).ids).toEqual([]);
});

/** Extends its lock while it works. */
const closing = (onRefusal: string, signal = ''): string => `${HEAD}
interface Ledger { entries(month: string): Promise<string>; post(month: string${signal && ', o: { signal: AbortSignal }'}): Promise<void> }
export async function close(redis: Redis, ledger: Ledger, month: string) {
  const [key, token, lost] = ['close:' + month, randomUUID(), new AbortController()];
  const take = async () => (await redis.set(key, token, 'PX', 9000, 'NX')) === 'OK';
  if (!(await take())) throw new Error('busy');
  const beat = setInterval(async () => {
    try { if ((await redis.eval(EXTEND, 1, key, token, 9000)) !== 1 ${onRefusal}) lost.abort(); } catch {}
  }, 3000);
  try {
    await ledger.entries(month);
    lost.signal.throwIfAborted();
    await ledger.post(month${signal});
  } finally {
    clearInterval(beat);
    await redis.eval(UNLOCK, 1, key, token);
  }
}`;

it('tells of a lock that is set again where it had expired, while its work goes on', async () => {
  expect((await audited(closing('&& !(await take())'))).ids).toContain('revives-lock');
  expect((await audited(closing(''))).ids).toEqual([]);
});

it('takes the time limit of a call for no news of the lock', async () => {
  const limited = closing('&& Number(token) > 1', ', { signal: AbortSignal.timeout(5000) }');
  expect((await audited(limited)).ids).toEqual(['silent-loss']);
});

it('does not take a lock that its work renews for one that renews itself', async () => {
  const importing = `${HEAD}
interface Files { rows(name: string): AsyncIterable<{ sku: string; level: number }> }
interface Queue { ack(name: string): Promise<void>; retry(name: string): Promise<void> }
const WRITE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('pexpire', KEYS[1], ARGV[2]) redis.call('hset', KEYS[2], ARGV[3], ARGV[4]) return 1";
export async function load(redis: Redis, files: Files, queue: Queue, name: string) {
  const [key, token] = ['load:' + name, randomUUID()];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') return queue.retry(name);
  try {
    for await (const { sku, level } of files.rows(name))
      if ((await redis.eval(WRITE, 2, key, 'levels', token, 9000, sku, level)) !== 1) throw new Error('lost');
  } catch { return queue.retry(name); } finally { await redis.eval(UNLOCK, 1, key, token); }
  await queue.ack(name);
}`;
  expect((await audited(importing)).ids).toEqual([]);
});

it('uses what others may call before private methods', async () => {
  const mover = `${HEAD}
interface Host { copy(shard: string): Promise<void> }
export class Mover {
  constructor(private readonly redis: Redis, private readonly host: Host) {}
  async move(shard: string) {
    const [key, token] = ['shard:' + shard, randomUUID()];
    try { await this.acquire(key, token); await this.host.copy(shard); } finally { await this.release(key, token); }
  }
  private async acquire(key: string, token: string) { if ((await this.redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy'); }
  private async release(key: string, token: string) { await this.redis.eval(UNLOCK, 1, key, token); }
}`;
  const { ids, understood } = await audited(mover);
  expect({ ids, understood }).toEqual({
    ids: [],
    understood: expect.stringMatching(/^Mover\.move .* does its own work/),
  });
  expect((await audited(mover.replaceAll('private async', 'async'))).understood).toMatch(/^Mover\.acquire /);
});

/** A handler in plain JavaScript that checks what it is sent. */
const HANDLER = `import { randomUUID } from 'node:crypto';
export function hook(redis, orders) {
  return async function handle(req, res) {
    const id = req.headers['x-request-id'];
    if (typeof id !== 'string' || id.length < 16) return res.status(400).json({});
    if (!Array.isArray(req.body.lines) || !Number.isInteger(req.body.cents)) return res.status(400).json({});
    const [key, token] = ['hook:' + id, randomUUID()];
    if ((await redis.set(key, token, 'PX', 60000, 'NX')) !== 'OK') return res.status(409).json({});
    await orders.apply(req.body.lines, req.body.cents);
    return res.status(200).json({});
  };
}`;

it('hands a request what its handler requires, and finds the handler that a function returns', async () => {
  const { ids, understood } = await audited(HANDLER, 0, 'lock.js');
  expect({ ids, understood }).toEqual({ ids: [], understood: expect.stringContaining('its key is "hook:') });
});

/** Campaigns until it is told to stop, and leads where it has won. */
const leading = (onError: string): string => `${HEAD}
interface Indexer { index(signal: AbortSignal): Promise<number> }
export async function lead(redis: Redis, indexer: Indexer, stop: AbortSignal) {
  while (!stop.aborted) {
    const [token, sentMs] = [randomUUID(), Date.now()];
    if ((await redis.set('leader', token, 'PX', 9000, 'NX').catch(() => null)) === 'OK') {
      const over = new AbortController();
      let untilMs = sentMs + 8000;
      const beat = setInterval(async () => {
        const atMs = Date.now();
        try {
          if ((await redis.eval(EXTEND, 1, 'leader', token, 9000)) === 1) untilMs = atMs + 8000;
          else over.abort();
        } catch {}
      }, 2000);
      try {
        while (!stop.aborted && !over.signal.aborted ${onError}) {
          await indexer.index(AbortSignal.any([stop, over.signal]));
          await sleep(500);
        }
      } finally {
        clearInterval(beat);
        await redis.eval(UNLOCK, 1, 'leader', token).catch(() => 0);
      }
    }
    await sleep(1000);
  }
}`;

it('leads until it is told to stop, and tells of a leader that goes on where it cannot reach Redis', async () => {
  const right = await audited(leading('&& Date.now() < untilMs'), 20);
  expect(right).toEqual({
    ids: [],
    understood: expect.stringMatching(/^lead .* does its own work .*its key is "leader"/),
  });
  expect((await audited(leading(''))).ids).toEqual(['silent-loss']);
});

it('says nothing of a leader whose term ends with its work, and which campaigns again', async () => {
  const short = leading('&& Date.now() < untilMs').replace('await sleep(500);', 'break;');
  expect((await audited(short)).ids).toEqual([]);
});

/** Takes a majority of nodes, and waits no longer than this for each. */
const quorum = (of: string): string => `${HEAD}
interface Router { promote(region: string): Promise<void> }
const within = <T>(sent: Promise<T>) => Promise.race([sent, sleep(300).then(() => { throw new Error('late'); })]);
export async function promote(nodes: Redis[], router: Router, region: string) {
  if (nodes.length < 3) throw new RangeError('too few');
  const [key, token, sentMs] = ['region:' + region, randomUUID(), Date.now()];
  try {
    const replies = await Promise.allSettled(nodes.map((it) => within(it.set(key, token, 'PX', 20000, 'NX'))));
    const answers = replies.filter(({ status }) => status === 'fulfilled');
    const votes = answers.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
    if (votes <= ${of}.length / 2 || Date.now() > sentMs + 15000) throw new Error('busy');
    await router.promote(region);
  } finally {
    await Promise.allSettled(nodes.map((it) => within(it.eval(UNLOCK, 1, key, token))));
  }
}`;

it('tells of a majority of those who answer, and takes answers for none that a function has not waited for', async () => {
  expect((await audited(quorum('answers'))).ids).toContain('no-majority');
  expect((await audited(quorum('nodes'), 40)).ids).toEqual([]);
});

/** Tries four times, each for no longer than this, unless there is a label. */
const buying = (limit: string): string => `${HEAD}
interface Carrier { buy(parcel: string, o: { signal: AbortSignal }): Promise<string> }
interface Labels { find(parcel: string): Promise<{ id: string } | null> }
export async function label(redis: Redis, carrier: Carrier, labels: Labels, parcel: string) {
  const [key, token, fromMs] = ['label:' + parcel, randomUUID(), Date.now()];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    if (await labels.find(parcel)) return 'there';
    for (let tries = 0; ; tries++)
      try { return await carrier.buy(parcel, { signal: AbortSignal.timeout(${limit}) }); } catch (error) { if (tries === 3) throw error; }
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it('tells of time limits that add up to more than the TTL, also where work is left out if something is found', async () => {
  expect((await audited(buying('4000'))).ids).toEqual(['work-outlasts-ttl']);
  expect((await audited(buying('2000'))).ids).toEqual([]);
  expect((await audited(buying('Math.max(0, fromMs + 7000 - Date.now())'))).ids).toEqual([]);
});

it('finds a function that says in its key that its work is done where that has failed', async () => {
  const placing = (done: string, failed: string): string => `import type { Redis } from 'ioredis';
const DONE = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], 'done', 'PX', 86400000) return 1 end return 0";
interface Orders { create(id: string, given: { signal: AbortSignal }): Promise<{ orderId: string }> }
export async function place(redis: Redis, orders: Orders, requestId: string): Promise<string> {
  const [key, pending] = ['order:' + requestId, 'pending:' + Math.random()];
  if ((await redis.set(key, pending, 'PX', 30_000, 'NX')) !== 'OK')
    return (await redis.get(key)) === 'done' ? 'placed before' : 'try again';
  try {
    const { orderId } = await orders.create(requestId, { signal: AbortSignal.timeout(20_000) });
    ${done}
    return orderId;
  } catch {
    return 'try again';
  } finally { ${failed} }
}`;
  const marks = 'await redis.eval(DONE, 1, key, pending);';
  await expect(audited(placing('', marks))).resolves.toMatchObject({ ids: ['marks-undone'] });
  await expect(audited(placing(marks, ''))).resolves.toMatchObject({ ids: [] });
});
