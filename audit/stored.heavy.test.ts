import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';
import { readSource } from './shapes.js';
import { storedFor } from './stored.js';
import type { Trial } from './wire.js';

/** Stands for an acquisition that has read these. */
const reading = (...reads: readonly string[]): Trial => {
  const sent = reads.map((it) => ({ words: it.split(' '), verb: it.split(' ')[0], key: it.split(' ')[1] }));
  return { sent: sent.map((it) => ({ ...it, operation: 'read-counter' })) } as unknown as Trial;
};

it('stores a number, or an object of the type that is read', () => {
  const typed = `interface Card { left: number; until: string; state: 'open' | 'used'; uses: string[]; note?: string; isActive: boolean }
    const card = JSON.parse(text) as Card;`;
  const object = { left: 1_000, until: '2099-01-01T00:00:00.000Z', state: 'open', uses: [], isActive: true };
  expect(storedFor(reading('get card'), [readSource(typed, 'lock.ts')])).toEqual([
    [['SET', 'card', JSON.stringify(object)]],
    [['SET', 'card', '1000']],
  ]);
  const untyped = `const card = JSON.parse(text); if (card.state !== 'open' || new Date(card.end) < now) return; card.uses.push(card.left - 1);`;
  expect(storedFor(reading('hgetall card'), [readSource(untyped, 'lock.js')])[0]).toEqual([
    ['HSET', 'card', 'state', 'open', 'end', '2099-01-01T00:00:00.000Z', 'uses', '[]', 'left', '1000'],
  ]);
  expect(storedFor(reading('hmget card a b'), [])).toEqual([[['HSET', 'card', 'a', '1000', 'b', '1000']]]);
  expect(storedFor(reading(), [])).toEqual([]);
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
