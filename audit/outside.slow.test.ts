import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { idsOfModule, audited as saidOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;

const folder = mkdtempSync(join(tmpdir(), 'lockstep-outside-'));

/** Writes a report under its lock, for as long as `limited` lets it. */
const reporting = (write: string, limited: string): string => `${HEAD}
import { appendFileSync, createWriteStream } from 'node:fs';
import { appendFile, mkdir, open, rename, writeFile } from 'node:fs/promises';
const FOLDER = ${JSON.stringify(join(folder, 'reports'))};
async function written(month: string, pages: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  const file = await open(FOLDER + '/' + month + '.tmp', 'w');
  for await (const page of pages) { signal.throwIfAborted(); ${write} }
  await file.close();
  signal.throwIfAborted();
  await rename(FOLDER + '/' + month + '.tmp', FOLDER + '/' + month + '.csv');
}
const limit = (ms: number): Promise<never> => new Promise((_, fail) => setTimeout(() => fail(new Error('too slow')), ms));
export async function report(customer: string, month: string, pages: AsyncIterable<string>): Promise<void> {
  const [key, token] = ['report:' + customer, randomUUID()];
  if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') return;
  try { await ${limited}; } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
const ENDS = 'written(month, pages, AbortSignal.timeout(50_000))';
const GOES_ON = 'Promise.race([written(month, pages, new AbortController().signal), limit(50_000)])';

it.each([
  ['a handle', 'await file.appendFile(page);'],
  ['a path', 'await appendFile(FOLDER + page, page); await writeFile(FOLDER + page, page);'],
  ['a stream', "await new Promise((done) => createWriteStream(FOLDER + '/s').end('page ' + page, done));"],
])('takes writing to %s for work, and writes nothing', async (_, write) => {
  await expect(saidOf(reporting(write, GOES_ON))).resolves.toMatchObject({ ids: ['releases-early'] });
  await expect(saidOf(reporting(write, ENDS))).resolves.toMatchObject({
    understood: expect.stringContaining('report (lock.ts:18) does its own work under the lock'),
    ids: [],
  });
  expect(existsSync(join(folder, 'reports'))).toBe(false);
});

/** Starts a program under its lock. */
const dumping = (starts: string, refused: string): string => `${HEAD}
import { exec, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
const run = promisify(execFile);
const [database] = process.argv.slice(2);
if (!database) process.exit(64);
const [key, token] = ['dump:' + database, randomUUID()];
let isOurs = false;
for (let i = 0; i < 3 && !isOurs; i++) {
  isOurs = (await redis.set(key, token, 'PX', 60_000, 'NX')) === 'OK';
  if (!isOurs) await new Promise((done) => setTimeout(done, 100));
}
if (!isOurs) { ${refused} }
try { ${starts} } finally { await redis.eval(UNLOCK, 1, key, token); }
`;

it.each([
  ['spawn', "const [code] = await once(spawn('psql', [database]), 'exit'); if (code !== 0) throw new Error('failed');"],
  ['execFile', "const { stdout } = await run('psql', [database]); if (stdout !== '') throw new Error(stdout);"],
  [
    'exec with a callback',
    "await new Promise<void>((done, fail) => exec('psql ' + database, (error) => (error ? fail(error) : done())));",
  ],
  ['spawnSync', "if (spawnSync('psql', [database]).status !== 0) throw new Error('failed');"],
])('takes a program that is started by %s for work', async (_, starts) => {
  await expect(saidOf(dumping(starts, 'process.exit(75);'))).resolves.toMatchObject({
    understood: expect.stringContaining('its key is "dump:a"'),
    ids: [],
  });
  await expect(saidOf(dumping(starts, ''))).resolves.toMatchObject({ ids: ['fails-open'] });
});

/** Migrates as it is loaded, when it has waited for its turn for two minutes. */
const migrating = (folder: string, filter: string, refused: string): string => `${HEAD}
import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
await db.connect();
const token = randomUUID();
let isOurs = false;
for (let i = 0; i < 40 && !isOurs; i++) {
  isOurs = (await redis.set('schema', token, 'PX', 1_800_000, 'NX')) === 'OK';
  if (!isOurs) await new Promise((done) => setTimeout(done, 3_000));
}
if (!isOurs) { ${refused} }
try {
  const { rows } = await db.query('SELECT name FROM schema_history');
  const applied = new Set(rows.map((it) => it.name));
  const folder = ${folder};
  for (const name of (await readdir(folder)).filter((it) => ${filter} && !applied.has(it))) {
    await db.query(await readFile(new URL(name, folder), 'utf8'));
    await db.query('INSERT INTO schema_history (name) VALUES ($1)', [name]);
  }
} finally { await redis.eval(UNLOCK, 1, 'schema', token); }
`;

it.each([
  ["new URL('./no-migrations/', import.meta.url)", "it.endsWith('.sql')"],
  ["new URL('file:///no-migrations/')", String.raw`/^\d{4}_.+\.sql$/.test(it)`],
])('has files in a folder that is not there, by the ending that is looked for: %s', async (folder, filter) => {
  expect(await idsOfModule(migrating(folder, filter, 'process.exit(75);'))).toEqual([]);
  expect(await idsOfModule(migrating(folder, filter, ''))).toEqual(['fails-open']);
});

it('refuses a file that is opened for writing by its number', async () => {
  const text = (flags: string): string => `${HEAD}
import { closeSync, openSync } from 'node:fs';
export async function append(name: string): Promise<void> {
  const token = randomUUID();
  if ((await redis.set(name, token, 'PX', 60_000, 'NX')) !== 'OK') return;
  try { closeSync(openSync(${JSON.stringify(import.meta.filename)}, '${flags}')); } finally { await redis.eval(UNLOCK, 1, name, token); }
}`;
  for (const flags of ['a', 'r+', 'rs+'])
    await expect(saidOf(text(flags))).rejects.toThrow('calls fs.openSync to write, which would change a real file');
  await expect(saidOf(text('r'))).resolves.toMatchObject({ ids: [] });
});

it('takes a guard that a script never releases, and the end of its process', async () => {
  const text = (failed: string): string => `import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1 });
redis.on('error', () => {});
const [name, ttlS, ...command] = process.argv.slice(2);
if (!name || !(Number(ttlS) >= 10) || command.length === 0) process.exit(64);
const reply = await redis.set('once:' + name, 'me', 'EX', Number(ttlS), 'NX').catch(() => ${failed});
if (reply !== 'OK') process.exit(75);
await fetch('https://mail.example/digest', { method: 'POST' });
process.exit(0);
`;
  const right = await saidOf(text('null'));
  expect(right.understood).toContain('its key is "once:a", and its TTL is 30 s');
  expect(right.ids).toEqual([]);
  await expect(saidOf(text("'OK'"))).resolves.toMatchObject({ ids: ['fails-open-on-error'] });
});

/** Imports a file that only its own machines have. */
const importing = (limited: string): string => `${HEAD}
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
interface Table { append(sku: string, cents: number): Promise<void>; skip(sku: string): Promise<void> }
const limit = (ms: number): Promise<never> => new Promise((_, fail) => setTimeout(() => fail(new Error('too slow')), ms));
export async function importPrices(supplier: string, table: Table): Promise<void> {
  const [key, token] = ['import:' + supplier, randomUUID()];
  if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') return;
  const work = async () => {
    const skipped: { sku: string }[] = JSON.parse(await readFile('/srv/prices/skipped.json', 'utf8'));
    for (const { sku } of skipped) await table.skip(sku);
    for await (const line of createInterface({ input: createReadStream('/srv/prices/' + supplier + '.csv') })) {
      const [sku, cents] = line.split(';');
      if (!Number.isFinite(Number(cents))) throw new Error('bad line');
      await table.append(sku!, Number(cents));
    }
  };
  try { await ${limited}; } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it.each([
  ['work()', []],
  ['Promise.race([work(), limit(45_000)])', ['releases-early']],
])('gives a file that is not there what the work reads of it: %s', async (limited, ids) => {
  expect((await saidOf(importing(limited))).ids).toEqual(ids);
});
