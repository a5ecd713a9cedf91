import { expect, it } from 'vitest';
import { environmentFor } from './environment.js';
import { durationOf, namedAs, parameterSaid } from './units.js';

const as = (text: string, value: number): string | null => {
  const named = namedAs([{ text }], value);
  return named && `${named.name} ${named.unitMs}`;
};

it.each([
  ['const ttl = Number(process.env.RECEIPTS_LOCK_SECONDS ?? 240);', 240, 'RECEIPTS_LOCK_SECONDS 1000'],
  ["const ttl = env['LOCK_TTL_MS'] || '9000';", 9_000, 'LOCK_TTL_MS 1'],
  ["const ttl = number('LEASE_SECONDS', 30);", 30, 'LEASE_SECONDS 1000'],
  ['// seconds; the work is cut off\nconst TTL = Number(process.env.FEED_LOCK_TTL || 900);', 900, 'FEED_LOCK_TTL 1000'],
  ['// the work takes seconds\nconst TTL = Number(process.env.FEED_LOCK_TTL || 900);', 900, null],
  ['const ttl = Number(process.env.PAGE_SECONDS ?? 240);', 240, null],
  ['const ttl = Number(process.env.LOCK_SECONDS ?? 240) * 1000;', 240_000, null],
])('knows what a number is called by: %s', (text, value, name) => {
  expect(as(text, value)).toBe(name);
});

it('takes no import for a port', () => {
  const source = {
    text: 'env.IMPORT_LOCK_SECONDS; env.REDIS_PORT',
    shapes: [],
    types: new Map(),
    names: [],
    imports: [],
    awaits: false,
  };
  const values = environmentFor([source], 1);
  expect(values.IMPORT_LOCK_SECONDS).toBeUndefined();
  expect(values.REDIS_PORT).toBe('6379');
});

it('takes a unit from the text of a parameter, and not from its type', () => {
  const before =
    '/**\n * @param {{ ttl?: number, lockMs?: number }} [options] the ttl in seconds\n * @param {number} waitMs in seconds\n */\n';
  expect(parameterSaid(before, 'lockMs')).toBeNull();
  expect(parameterSaid(before, 'waitMs')).toBe(1_000);
});

it('makes durations as the libraries for times have them', () => {
  const it = durationOf(90_000) as Record<'asSeconds' | 'toMillis' | 'valueOf', () => number> & {
    as(unit: string): number;
  };
  expect([it.asSeconds(), it.toMillis(), it.valueOf()]).toEqual([90, 90_000, 90_000]);
  expect(['milliseconds', 'ms', 'seconds', 's', 'minutes', 'm'].map((unit) => it.as(unit))).toEqual([
    90_000, 90_000, 90, 90, 1.5, 1.5,
  ]);
});
