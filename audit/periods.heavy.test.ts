import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** How a lock is used, and what using it without faults finds; nothing is searched. */
async function saidOf(text: string): Promise<{ readonly understood: string; readonly ids: string[] }> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  const { findings, understood } = await auditFile({ path, runs: 0, seed: '', budgetMs: 1_000 }, () => {});
  return { understood: understood.join('\n'), ids: findings.map(({ id }) => id) };
}

/** A job of a day: `key` of its guard, which lives for `ttlS`; `work` is done, and then `end`. */
const daily = (key: string, ttlS: number, work: string, end: string): string => `import type { Redis } from 'ioredis';
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Books { isBooked(day: string): Promise<boolean>; book(day: string): Promise<void> }
export async function runInterest(redis: Redis, books: Books): Promise<boolean> {
  const day = new Date().toISOString().slice(0, 10);
  const [key, token] = [${key}, String(Math.random())];
  if ((await redis.set(key, token, 'EX', ${ttlS}, 'NX')) !== 'OK') return false;
  try {
    ${work}
    return true;
  } ${end}
}`;

const BOOKS = 'await books.book(day);';
const RELEASES = 'finally { await redis.eval(DEL, 1, key, token); }';

it('finds a guard of a day that is deleted when the work is done', async () => {
  await expect(saidOf(daily("'interest:' + day", 129_600, BOOKS, RELEASES))).resolves.toMatchObject({
    ids: ['guard-released'],
  });
});

it.each([
  [
    'is deleted where the work has failed alone',
    "'interest:' + day",
    129_600,
    BOOKS,
    RELEASES.replace('finally', 'catch'),
  ],
  ['is a lock for some minutes', "'interest:' + day", 600, BOOKS, RELEASES],
  ['has no day in its key', "'interest'", 129_600, BOOKS, RELEASES],
  [
    'is asked for by who looks what has been done',
    "'interest:' + day",
    129_600,
    `if (!(await books.isBooked(day))) ${BOOKS}`,
    RELEASES,
  ],
])('lets a guard pass that %s', async (_, key, ttlS, work, end) => {
  await expect(saidOf(daily(key, ttlS, work, end))).resolves.toMatchObject({ ids: [] });
});

/** A job with parameters `given`; `checks` is done first, and its key is made of `of`. */
const job = (given: string, checks: string, of: string): string => `import type { Redis } from 'ioredis';
export async function once(redis: Redis, ${given}, work: () => Promise<void>): Promise<boolean> {
  ${checks}
  if ((await redis.set('job:' + ${of}, 'done', 'EX', 172_800, 'NX')) !== 'OK') return false;
  await work();
  return true;
}`;

it.each([
  [
    'a month of a form',
    job('month: string', String.raw`if (!/^\d{4}-\d{2}$/.test(month)) throw new Error('no month');`, 'month'),
    '2097-05',
  ],
  ['a day', job('day: string', '', "new Date(day + 'T00:00:00Z').getTime()"), 'job:4019673600000'],
  [
    'the time that it was planned for',
    job(
      'plannedFor: number',
      'if (Date.now() - plannedFor > 6e5) return false;',
      'new Date(plannedFor).toISOString().slice(0, 10)',
    ),
    'job:2033-05-18',
  ],
])('gives a job %s', async (_, text, key) => {
  const { understood, ids } = await saidOf(text);
  expect(understood).toContain(key);
  expect(ids).toEqual([]);
});
