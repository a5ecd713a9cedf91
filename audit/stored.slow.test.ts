import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';
import { readSource } from './shapes.js';
import { storedFor } from './stored.js';
import type { Trial } from './trial.js';

/** Stands for an acquisition that has read these. */
const reading = (...reads: readonly string[]): Trial => {
  const sent = reads.map((it) => ({ words: it.split(' '), verb: it.split(' ')[0], key: it.split(' ')[1] }));
  const names = new Set(['order.seat']);
  return { sent: sent.map((it) => ({ ...it, operation: 'read-counter' })), names } as unknown as Trial;
};

it('stores a number, or an object of the type that is read', () => {
  const typed = `interface Card { left: number; until: string; state: 'open' | 'used'; uses: string[]; note?: string; isActive: boolean }
    const card = JSON.parse(text) as Card;`;
  const object = { left: 1_000, until: '2099-01-01T00:00:00.000Z', state: 'open', uses: [], isActive: true };
  expect(storedFor(reading('get card'), [readSource(typed, 'lock.ts')])).toEqual([
    [['SET', 'card', JSON.stringify(object)]],
    [['SET', 'card', JSON.stringify({ ...object, until: '1999-01-01T00:00:00.000Z' })]],
    ...[0, -1_000].map((left) => [['SET', 'card', JSON.stringify({ ...object, left })]]),
    [['SET', 'card', '1000']],
  ]);
  const untyped = `const card = JSON.parse(text); if (card.state !== 'open' || new Date(card.end) < now) return; card.uses.push(card.left - 1);`;
  expect(storedFor(reading('hgetall card'), [readSource(untyped, 'lock.js')])[0]).toEqual([
    ['HSET', 'card', 'state', 'open', 'end', '2099-01-01T00:00:00.000Z', 'uses', '[]', 'left', '1000'],
  ]);
  const taken = `const [bike, rider] = await Promise.all([redis.hgetall(key), redis.get(id)]); if (!bike.dock || bike.ride) return;`;
  expect(storedFor(reading('hgetall bike'), [readSource(taken, 'lock.js')])).toContainEqual([
    ['HSET', 'bike', 'dock', '1000'],
  ]);
  const record = 'interface Plan { seats: Record<string, string | null> } const plan = JSON.parse(text) as Plan;';
  expect(storedFor(reading('get plan'), [readSource(record, 'lock.ts')])[0]).toEqual([
    ['SET', 'plan', JSON.stringify({ seats: { a: null, 'a-order.seat': null } })],
  ]);
  expect(storedFor(reading('hmget card a b'), [])).toEqual([[['HSET', 'card', 'a', '1000', 'b', '1000']]]);
  expect(storedFor(reading(), [])).toEqual([]);
});

it('stores the elements of a list also without where it is read on', () => {
  expect(storedFor(reading('get cursor', 'lrange events 0 9'), [])).toEqual([
    [
      ['SET', 'cursor', '1000'],
      ['RPUSH', 'events', '1000', '1000'],
    ],
    [['RPUSH', 'events', '1000', '1000']],
  ]);
});

/** A function that refuses what is not in stock, and stores what is left. */
const taking = (reads: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const OWN = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
export async function take(redis: Redis, sku: string, n: number) {
  const [lock, key, token] = ['lock:' + sku, 'stock:' + sku, randomUUID()];
  ${reads.includes('before') ? LOOKS : ''}
  for (let i = 0; (await redis.set(lock, token, 'PX', 6000, 'NX')) !== 'OK'; i++) {
    if (i === 20) throw new Error('busy');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  try {
    ${reads.includes('under') ? LOOKS : ''}
    await redis.set(key, Number(stock) - n);
  } finally {
    await redis.eval(OWN + "return redis.call('del', KEYS[1])", 1, lock, token);
  }
}`;
const LOOKS = `const stock = await redis.get(key);
  if (stock === null || Number(stock) < n) throw new Error('none left');`;

it.each([
  ['before', [expect.stringMatching(/^reads-before-lock /)]],
  ['under', []],
])('understands a function that does nothing where its data is missing: read %s', async (reads, found) => {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, taking(reads));
  const { findings } = await auditFile({ path, runs: 20, seed: '', budgetMs: 10_000 }, () => {});
  expect(findings.map(({ id, place }) => `${id} ${place?.line}`)).toEqual(found);
});

it('takes an answer from what was stored before for no lock', async () => {
  const refunding = (unit: string): string => `import { Redis } from '@upstash/redis';
const CLAIM = \`local result = redis.call('GET', KEYS[2])
if result then return { 2, result } end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return { 0, '' } end
redis.call('SET', KEYS[1], ARGV[1], '${unit}', ARGV[2])
return { 1, '' }\`;
const COMPLETE = \`redis.call('SET', KEYS[2], ARGV[2], 'EX', 86400, 'NX')
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1\`;
const DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
interface Payments { refund(id: string, key: string, signal: AbortSignal): Promise<{ id: string }> }
export function refundEndpoint(payments: Payments, redis = Redis.fromEnv({ automaticDeserialization: false })) {
  return async (req: { headers: Record<string, string | undefined>; body: { charge: string } }) => {
    const idem = req.headers['idempotency-key'];
    if (!idem) return { status: 400 };
    const [keys, token, from] = [['{r:' + idem + '}:claim', '{r:' + idem + '}:result'], String(Math.random()), performance.now()];
    try {
      const [state, stored] = (await redis.eval(CLAIM, keys, [token, '45000'])) as [number | string, string];
      if (Number(state) === 2) return { status: 200, body: JSON.parse(stored) };
      if (Number(state) !== 1) return { status: 409 };
      const left = Math.floor(from + 44_000 - performance.now());
      if (left <= 0) return { status: 503 };
      const { id } = await payments.refund(req.body.charge, idem, AbortSignal.timeout(left));
      await redis.eval(COMPLETE, keys, [token, JSON.stringify({ id })]);
      return { status: 201, body: { id } };
    } finally {
      await redis.eval(DROP, [keys[0]!], [token]).catch(() => {});
    }
  };
}`;
  const idsOf = async (text: string, runs: number): Promise<string[]> => {
    const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
    writeFileSync(path, text);
    return (await auditFile({ path, runs, seed: 's', budgetMs: 60_000 }, () => {})).findings.map(({ id }) => id);
  };
  await expect(idsOf(refunding('PX'), 60)).resolves.toEqual([]);
  await expect(idsOf(refunding('EX'), 0)).resolves.toEqual(['ms-as-seconds']);
});

/** A cache that is filled without a lock where it is cold, and under one where what it has is old. */
const pricing = (options: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
interface Prices { revision: number; freshUntil: number; prices: string[] }
interface Source { load(market: string): Promise<Prices> }
const STORE = "local now = redis.call('GET', KEYS[1]) if now and tonumber(cjson.decode(now).revision) > tonumber(ARGV[2]) then return 0 end redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400) return 1";
const DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
export const prices = (redis: Redis, source: Source) => async (req: { params: { market: string } }) => {
  const { market } = req.params;
  const [key, lock, token] = ['prices:' + market, 'prices:' + market + ':rebuild', randomUUID()];
  const raw = await redis.get(key);
  const cached: Prices | null = raw === null ? null : JSON.parse(raw);
  if (cached !== null && cached.freshUntil > Date.now()) return cached;
  const rebuild = async () => {
    const fresh = await source.load(market);
    await redis.eval(STORE, 1, key, JSON.stringify({ ...fresh, freshUntil: Date.now() + 60_000 }), fresh.revision);
    return fresh;
  };
  if (cached === null) return rebuild();
  if ((await redis.set(lock, token, ${options})) !== 'OK') return cached;
  try { return await rebuild(); } finally { await redis.eval(DROP, 1, lock, token); }
};`;

it.each([
  ["'PX', 9000, 'NX'", []],
  ["'NX'", ['no-ttl']],
])('takes for the lock what is asked for where a cache is old, and not the cache: %s', async (options, ids) => {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, pricing(options));
  const { findings, understood } = await auditFile({ path, runs: 0, seed: 's', budgetMs: 20_000 }, () => {});
  expect(understood.join()).toContain('"prices:a:rebuild"');
  expect(findings.map(({ id }) => id)).toEqual(ids);
});
