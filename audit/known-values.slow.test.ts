import { expect, it } from 'vitest';
import { idsOf, idsOfModule } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const redis = new Redis(process.env.REDIS_URL);
async function locked(key, work) {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  try { return await work(); } finally { await redis.eval(UNLOCK, 1, key, token); }
}
`;

it('counts none of what stands in the way of work', async () => {
  const lend = (open: string): string => `${HEAD}
import { PrismaClient } from '@prisma/client';
const prisma = new PrismaClient();
const book = async (tx, id) => {
  if ((await tx.loan.count({ where: { id } })) > 0) throw new Error('lent');
  await tx.loan.create({ data: { id } });
};
export async function lend(id) { ${open} }`;
  const inside = "return prisma.$transaction(async (tx) => locked('item:' + id, () => book(tx, id)));";
  const outside = "return locked('item:' + id, () => prisma.$transaction(async (tx) => book(tx, id)));";
  expect(await idsOfModule(lend(inside))).toEqual(['released-before-commit']);
  expect(await idsOfModule(lend(outside))).toEqual([]);
});

it('has room left, and stores under the lock what was made of a number that was read before it', async () => {
  const book = (before: string, under: string): string => `${HEAD}
import knex from 'knex';
import express from 'express';
const db = knex({ client: 'pg' });
const app = express();
app.post('/decks/:id', async (req, res) => {
  const { id } = req.params;
  ${before}
  await locked('deck:' + id, async () => {
    ${under}
    await db.transaction(async (trx) => {
      await trx('decks').where({ id }).update({ lane_used_cm: deck.lane_used_cm + req.body.lengthCm });
    });
  });
  res.status(201).end();
});`;
  const reads = `const deck = await db('decks').where({ id }).first();
  if (!deck || deck.lane_used_cm + req.body.lengthCm > deck.lane_total_cm) return res.status(409).end();`;
  expect(await idsOfModule(book(reads, ''))).toEqual(['reads-before-lock']);
  expect(await idsOfModule(book('', reads))).toEqual([]);
});

it('names a call after the command that it sends', async () => {
  const consumer = (busy: string): string => `${HEAD}
import { SQSClient, ReceiveMessageCommand, DeleteMessageCommand } from '@aws-sdk/client-sqs';
import pg from 'pg';
const sqs = new SQSClient({});
const db = new pg.Pool();
async function handle(message) {
  const test = JSON.parse(message.Body);
  const key = 'crane:' + test.craneId, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') { ${busy} }
  else {
    try { await db.query('UPDATE cranes SET tested = now() WHERE id = $1', [test.craneId]); }
    finally { await redis.eval(UNLOCK, 1, key, token); }
  }
  await sqs.send(new DeleteMessageCommand({ ReceiptHandle: message.ReceiptHandle }));
}
async function main() {
  for (;;) {
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({}));
    await Promise.allSettled(Messages.map(handle));
  }
}
main();`;
  expect(await idsOfModule(consumer("console.log('busy');"))).toEqual(['drops-busy']);
  expect(await idsOfModule(consumer('return;'))).toEqual([]);
});

it('does not hold against a file that it goes on without the lock where it writes on a condition', async () => {
  const report = (condition: string): string => `${HEAD}
import { S3Client, HeadObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
const s3 = new S3Client({});
async function exists(Key) {
  try { await s3.send(new HeadObjectCommand({ Key })); return true; }
  catch (error) { if (error.name === 'NotFound') return false; throw error; }
}
export async function handler(month) {
  if (await exists(month)) return 'there';
  const key = 'report:' + month, token = randomUUID();
  let state = 'none';
  try { state = (await redis.set(key, token, 'PX', 60_000, 'NX')) === 'OK' ? 'held' : 'busy'; } catch { console.warn('no lock'); }
  if (state === 'busy') return 'elsewhere';
  try { await s3.send(new PutObjectCommand({ Key: month, Body: '1'${condition} })); }
  finally { if (state === 'held') await redis.eval(UNLOCK, 1, key, token); }
  return 'written';
}`;
  expect(await idsOfModule(report(", IfNoneMatch: '*'"))).toEqual([]);
  expect(await idsOfModule(report(''))).toEqual(['fails-open-on-error']);
});

it('gives a script the options that it describes', async () => {
  const script = (returned: string): string => `${HEAD.replace('return await work()', `return ${returned}work()`)}
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
const db = new pg.Pool();
const { values } = parseArgs({ options: { house: { type: 'string' }, file: { type: 'string' } } });
if (!values.house || !values.file) throw new Error('usage');
const lines = JSON.parse(await readFile(values.file, 'utf8'));
for (let i = 0; i < lines.length; i += 5) {
  await locked('house:' + values.house, async () => {
    for (const line of lines.slice(i, i + 5)) {
      await db.query('UPDATE costumes SET lent = false WHERE tag = $1', [line.tag]);
      await db.query('UPDATE racks SET hanging = 1 WHERE house = $1', [values.house]);
    }
  });
}
await redis.quit();`;
  expect(await idsOfModule(script(''))).toEqual(['releases-early']);
  expect(await idsOfModule(script('await '))).toEqual([]);
});

it('gives the commands of a script what they declare, and calls the first', async () => {
  const script = (returned: string): string => `${HEAD.replace('return await work()', `return ${returned}work()`)}
import { Command, InvalidArgumentError, Option } from 'commander';
import { chunk } from 'lodash';
import pg from 'pg';
const db = new pg.Pool();
const program = new Command('stock').description('of a shop').showHelpAfterError();
const whole = (text) => {
  if (!/^[0-9]+$/.test(text)) throw new InvalidArgumentError('no number');
  return Number(text);
};
program.command('count <shop> [shelves...]')
  .requiredOption('--size <n>', 'of a batch', whole)
  .addOption(new Option('--kind <kind>').choices(['food', 'tools']))
  .option('--label <text>', 'of the count', 'usual')
  .option('--dry-run')
  .action(async (shop, shelves, { size, kind, label, dryRun }, command) => {
    if (dryRun || size !== 30 || kind !== 'food' || label !== 'usual' || command.args[0] !== shop) return;
    await locked('shop:' + shop, async () => {
      for (const some of chunk(shelves, size)) await db.query('UPDATE shelves SET counted = 1 WHERE id = $1', some);
      await db.query('UPDATE shops SET counted = 1 WHERE id = $1', [shop]);
    });
    await redis.quit();
  });
program.command('list').action(() => process.exit(0));
await program.parseAsync(process.argv);`;
  expect(await idsOfModule(script(''))).toEqual(['releases-early']);
  expect(await idsOfModule(script('await '), 40)).toEqual([]);
});

it('takes what is not known for a list where a library of functions for lists is given it', async () => {
  const loading = (loop: string, awaits: string): string => `${HEAD}
import pg from 'pg';
import _ from 'lodash';
import { chunk, groupBy, sortBy } from 'lodash';
import { readFeed } from './feed.js';
const db = new pg.Pool();
async function load(feed, rows) {
  await db.query('UPDATE tariffs SET price = $1', [rows.length]);
  await db.query('UPDATE feeds SET loaded = now() WHERE id = $1', [feed.id]);
}
export async function importTariffs(carrier) {
  await locked('tariffs:' + carrier, async () => {
    const feed = await readFeed(carrier);
    for (const rows of ${loop}) ${awaits}load(feed, rows);
  });
}`;
  for (const loop of [
    '_.chunk(feed.rows, 200)',
    'chunk(feed.rows, 200)',
    "Object.values(groupBy(feed.rows, 'zone'))",
    'sortBy(feed.rows, (it) => it.zone).map((it) => [it])',
    "_(feed.rows).uniqBy('id').chunk(200).value()",
    '(_.isEmpty(feed.rows) ? [] : [_.compact(_.cloneDeep(feed).rows)])',
  ]) {
    expect(await idsOfModule(loading(loop, 'await ')), loop).toEqual([]);
    expect(await idsOfModule(loading(loop, 'void ')), loop).toEqual(['releases-early']);
  }
});

it('takes a list apart that has as many elements as are found in it, whatever it reads as where it is a number', async () => {
  const settling = (busy: string): string => `${HEAD.replace("throw new Error('busy');", busy)}
import pg from 'pg';
import { chunk } from 'lodash';
import { readSales } from './sales-feed.js';
const db = new pg.Pool();
export async function settle(shop) {
  const { owner } = await readSales(shop);
  const { account } = await readSales(owner);
  const { sales } = await readSales(account);
  for (const some of chunk(sales, 200))
    await locked('shop:' + shop, async () => { await db.query('UPDATE sales SET settled = true WHERE id = ANY($1)', [some]); });
}`;
  expect(await idsOfModule(settling("throw new Error('busy');"))).toEqual([]);
  expect(await idsOfModule(settling("console.warn('busy');"))).toEqual(['fails-open']);
});

it('takes a lock beside another server for one on one node', async () => {
  const worker = `${HEAD.replaceAll('process.env.REDIS_URL', 'process.env.LOCK_REDIS_URL')}
import { Worker } from 'bullmq';
import pg from 'pg';
const db = new pg.Pool();
const connection = new Redis(process.env.QUEUE_REDIS_URL, { maxRetriesPerRequest: null });
export const worker = new Worker('repairs', async (job) => {
  await locked('device:' + job.data.serial, () => db.query('UPDATE devices SET sent = now() WHERE serial = $1', [job.data.serial]));
}, { connection });`;
  expect(await idsOfModule(worker)).toEqual([]);
});

it('connects a client that a file exports unconnected, though it connects to a database', async () => {
  const text = `import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import pg from 'pg';
const pool = new pg.Pool();
export const redis = createClient({ url: process.env.REDIS_URL });
export async function grant(id: string) {
  const token = randomUUID(), key = 'route:' + id;
  if ((await redis.set(key, token, { NX: true, PX: 30_000 })) !== 'OK') console.warn('busy');
  const client = await pool.connect();
  await client.query('UPDATE routes SET taken = 1 WHERE id = $1', [id]);
  await redis.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", { keys: [key], arguments: [token] });
}`;
  expect(await idsOf(text)).toContain('fails-open');
});

it('calls no private method of what has been started, which calls it itself', async () => {
  const text = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
interface Board { publish(): Promise<void> }
export class Leader {
  private token: string | null = null;
  private isStopped = false;
  constructor(private readonly redis: Redis, private readonly board: Board, private readonly ttlMs = 15_000) {}
  async start(): Promise<void> {
    await this.redis.call('FUNCTION', 'LOAD', 'REPLACE', LIBRARY);
    void this.run();
  }
  stop(): void { this.isStopped = true; }
  private async run(): Promise<void> {
    while (!this.isStopped) {
      if (await this.leads().catch(() => false)) await this.board.publish();
      await new Promise((resolve) => setTimeout(resolve, 4_000));
    }
  }
  private async leads(): Promise<boolean> {
    if (this.token !== null && (await this.redis.call('FCALL', 'keep', 1, 'leader', this.token, this.ttlMs)) === 1) return true;
    const token = randomUUID();
    const reply = await this.redis.call('FCALL', 'take', 1, 'leader', token, this.ttlMs);
    this.token = reply === 1 ? token : null;
    return reply === 1;
  }
}
const LIBRARY = "#!lua name=leases\\nredis.register_function('take', function(keys, args) if redis.call('SET', keys[1], args[1], 'NX', 'PX', args[2]) then return 1 end return 0 end)\\nredis.register_function('keep', function(keys, args) if redis.call('GET', keys[1]) == args[1] then return redis.call('PEXPIRE', keys[1], args[2]) end return 0 end)";`;
  await expect(idsOf(text)).rejects.toThrow('nothing was found that says who has the lock');
});

it('calls the action of a command line of cac', async () => {
  const script = (awaits: string): string => `${HEAD}
import { cac } from 'cac';
import pg from 'pg';
const db = new pg.Pool();
const cli = cac('shop');
cli.command('count <shop>', 'counts').option('--size <n>', 'of a batch', { default: 10 }).action(async (shop, { size }) => {
  if (size !== 10) return;
  const count = async () => {
    await db.query('UPDATE shops SET counted = 1 WHERE id = $1', [shop]);
    await db.query('UPDATE shelves SET counted = 1 WHERE shop = $1', [shop]);
  };
  await locked('shop:' + shop, async () => { ${awaits}count(); });
});
cli.help();
cli.parse();`;
  expect(await idsOfModule(script('await '))).toEqual([]);
  expect(await idsOfModule(script(''))).toEqual(['releases-early']);
});

it('finds work that takes an error of Redis for a key that it has acquired', async () => {
  const renewing = (refused: string): string => `
import { randomUUID } from 'node:crypto';
import { renewAll } from './certificates.mjs';
const { UPSTASH_REDIS_REST_URL, UPSTASH_REDIS_REST_TOKEN: token } = process.env;
async function redis(...command) {
  const headers = { authorization: 'Bearer ' + token };
  const answer = await fetch(UPSTASH_REDIS_REST_URL, { method: 'POST', headers, body: JSON.stringify(command) });
  return (await answer.json()).result;
}
export async function renew() {
  const own = randomUUID();
  if (${refused}) return;
  try { await renewAll(); }
  finally { await redis('EVAL', "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", '1', 'renew', own); }
}`;
  const asks = "(await redis('SET', 'renew', own, 'NX', 'PX', '60000'))";
  expect(await idsOfModule(renewing(`${asks} === null`))).toEqual(['fails-open-on-error']);
  expect(await idsOfModule(renewing(`${asks} !== 'OK'`))).toEqual([]);
});
