import { expect, it } from 'vitest';
import { audited as saidOf } from './testing/audited.js';

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

it('believes a comment that says how often its work is done', async () => {
  const said = (comment: string): string => comment + daily("'interest'", 600, BOOKS, RELEASES);
  const claim = '/**\n * The guard sees to it that it is done by a single server\n * each night.\n */\n';
  await expect(saidOf(said(claim))).resolves.toMatchObject({ ids: ['guard-released'] });
  const morning = '// Customers get exactly one digest a morning.\n';
  await expect(saidOf(said(morning))).resolves.toMatchObject({ ids: ['guard-released'] });
  const limit = '// The provider allows only one request per minute.\n';
  await expect(saidOf(said(limit))).resolves.toMatchObject({ ids: [] });
  const asked = '// The scheduler calls it once a night, on every server.\n';
  await expect(saidOf(said(asked))).resolves.toMatchObject({ ids: [] });
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

/** A job by a schedule, which changes the balance of accounts. */
const charging = (schedule: string, sets: string, where: string): string => `import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import cron from 'node-cron';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool({ statement_timeout: 60_000 });
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function charge() {
  const token = randomUUID();
  if ((await redis.set('charge', token, 'PX', 600_000, 'NX')) !== 'OK') return;
  try {
    await pool.query(\`UPDATE accounts SET ${sets} WHERE ${where}\`);
  } finally {
    await redis.eval(DEL, 1, 'charge', token);
  }
}
cron.schedule('${schedule}', () => { charge().catch(console.error); });`;

it.each([
  ['what a job of each day adds again', '0 3 * * *', 'due = due + fee', "state = 'open'", ['guard-released']],
  [
    'no job of each day that looks when it added last',
    '0 3 * * *',
    'due = due + fee, charged = $1',
    'charged < $1',
    [],
  ],
  ['no job of each day that may be done again', '0 3 * * *', 'due = 0', "state = 'paid'", []],
  ['no job that is done all the time', '*/5 * * * *', 'due = due + fee', "state = 'open'", []],
])('finds %s', async (_, schedule, sets, where, ids) => {
  await expect(saidOf(charging(schedule, sets, where))).resolves.toMatchObject({ ids });
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

/** Runs a task in each slot of a schedule, in one process of all. */
const scheduled = (failed: string): string => `import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1 });
redis.on('error', () => {});
async function runSlot(job, slot, task) {
  let mine = false;
  try {
    mine = (await redis.set('cron:' + job + ':' + slot, 'me', 'EX', 86400, 'NX')) === 'OK';
  } catch { ${failed} }
  if (mine) await task(slot);
}
export function every(job, everyMs, task) {
  let [timer, stopped] = [null, false];
  const arm = (slot) => {
    if (stopped) return;
    timer = setTimeout(() => { void runSlot(job, slot, task); arm(slot + everyMs); }, Math.max(0, slot - Date.now()));
  };
  arm((Math.floor(Date.now() / everyMs) + 1) * everyMs);
  return () => { stopped = true; clearTimeout(timer); };
}`;

it('waits for the slot of a schedule, and stops that when the task is done', async () => {
  const said = await saidOf(scheduled('return;'));
  expect(said.understood).toContain('every (lock.ts:11) runs work under the lock');
  expect(said.ids).toEqual([]);
  await expect(saidOf(scheduled('mine = true;'))).resolves.toMatchObject({ ids: ['fails-open-on-error'] });
  const checked = scheduled('return;').replaceAll('everyMs', 'periodMs');
  const least = "if (!(periodMs >= 10_000)) throw new RangeError('at least 10 seconds');";
  const said10 = await saidOf(checked.replace('let [timer, stopped]', `${least} let [timer, stopped]`));
  expect(said10.ids).toEqual([]);
});

it.each([
  ['a date', 'Date', 'at'],
  ['a text', '{ at: string }', 'new Date(at.at)'],
])('hands the time of a slot over as %s', async (_, type, date) => {
  const text = `import type { Redis } from 'ioredis';
export async function once(redis: Redis, name: string, at: ${type}, job: () => Promise<void>) {
  const due = ${date};
  if (Date.now() - due.getTime() > 3_600_000) return 'too late';
  const slot = due.toISOString().slice(0, 10);
  if ((await redis.set('cron:' + name + ':' + slot, 'me', 'EX', 604_800, 'NX')) !== 'OK') return 'skipped';
  await job();
  return 'ran';
}`;
  const said = await saidOf(text);
  expect(said.understood).toContain('its key is "cron:a:2033-05-18"');
  expect(said.ids).toEqual([]);
});

it('takes no work of the next night for that of a lock of the last one', async () => {
  const { ids } = await saidOf(`import type { Redis } from 'ioredis';
interface Site { urls(): AsyncIterable<string>; alert(text: string): Promise<void> }
async function run(redis: Redis, at: Date, site: Site): Promise<void> {
  if ((await redis.set('sitemap:' + at.toISOString().slice(0, 10), 'done', 'EX', 129_600, 'NX')) !== 'OK') return;
  try { for await (const url of site.urls()) await redis.rpush('urls', url); } catch (error) { await site.alert(String(error)); }
}
export async function start(redis: Redis, site: Site): Promise<void> {
  const arm = (at: Date): void => {
    setTimeout(() => run(redis, at, site).finally(() => arm(new Date(at.getTime() + 86_400_000))), Math.max(0, Number(at) - Date.now()));
  };
  arm(new Date(Date.now() + 86_400_000));
}`);
  expect(ids).toEqual([]);
});
