import { expect, it } from 'vitest';
import { idsOfModule } from './testing/audited.js';

/** Pays what is due to a merchant, in a job, under a lock on so many nodes, within a time limit. */
const paying = (nodes: number, { steps, late = '', limitMs = 90_000 }: Work): string => `import axios from 'axios';
import Redis from 'ioredis';
import Redlock from 'redlock4';
import { PrismaClient } from '@prisma/client';
const prisma = new PrismaClient();
const nodes = [${Array.from({ length: nodes }, (_, i) => `'redis://n${i}'`).join()}].map((url) => new Redis(url));
const redlock = new Redlock(nodes, { retryCount: 3, retryDelay: 400 });
redlock.on('clientError', () => {});
const bank = axios.create({ baseURL: process.env.BANK_URL, timeout: 15_000 });
const state = { isOver: false };
async function pay(merchantId) {
  ${steps}
}
function limit(promise, ms) {
  let timer;
  const over = new Promise((_, reject) => { timer = setTimeout(() => { ${late} reject(new Error('late')); }, ms); });
  return Promise.race([promise, over]).finally(() => clearTimeout(timer));
}
export async function payMerchant(merchantId) {
  const lock = await redlock.lock('payouts:' + merchantId, 120_000);
  try {
    state.isOver = false;
    await limit(pay(merchantId), ${limitMs});
  } finally {
    await lock.unlock().catch(() => {});
  }
}`;

interface Work {
  readonly steps: string;
  /** Done when the time is over. */
  readonly late?: string;
  readonly limitMs?: number;
}

const each = (
  look: string,
): string => `const due = await prisma.payout.findMany({ where: { merchantId, state: 'DUE' } });
  for (const payout of due) {
    ${look}
    await bank.post('/transfers', { iban: payout.iban });
    ${look}
    await prisma.payout.update({ where: { id: payout.id, state: 'DUE' }, data: { state: 'PAID' } });
  }`;

it.each([1, 3])('finds work that goes on when its time limit is over, with its lock on %i nodes', async (nodes) => {
  expect(await idsOfModule(paying(nodes, { steps: each('') }))).toEqual(['releases-early']);
});

it.each([
  ['looks at a flag', { steps: each("if (state.isOver) throw new Error('over');"), late: 'state.isOver = true;' }],
  ['is at its last step', { steps: "await bank.post('/transfers', { merchantId });" }],
  [
    'takes no longer by the limits of its calls',
    { steps: "await bank.post('/transfers', { merchantId }); await bank.post('/receipts', { merchantId });" },
  ],
])('lets work pass that %s', async (_, work: Work) => {
  expect(await idsOfModule(paying(3, work))).toEqual([]);
});

/** Sends what is due under a lock, again and again; each time it waits for the work so. */
const draining = (work: string): string => `import Redis from 'ioredis';
import Redlock from 'redlock5';
import { Pool } from 'pg';
import { producer } from './producer';
const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 0 });
redlock.on('error', () => {});
const pool = new Pool();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function sendAll(signal) {
  if (signal.aborted) throw signal.error;
  const db = await pool.connect();
  const { rows } = await db.query('SELECT id FROM outbox WHERE sent_at IS NULL LIMIT 100');
  for (const row of rows) await producer.send({ id: row.id, idempotencyKey: row.id });
  db.release();
}
export async function drain() {
  await redlock.using(['outbox'], 20_000, (signal) => ${work}).catch(() => {});
}
(async () => { for (;;) { await drain(); await sleep(1_000); } })();`;

it('takes for given up no work that its process does again under the lock', async () => {
  expect(await idsOfModule(draining('sendAll(signal)'))).toEqual([]);
});

/** Checks a photo at a server that may be asked so many times at once. */
const checking = (slots: number, given: string): string => `import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
const redis = new Redis(process.env.REDIS_URL);
const TAKE = \`local now = tonumber(redis.call('time')[1]) * 1000
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if redis.call('zcard', KEYS[1]) >= ${slots} then return 0 end
redis.call('zadd', KEYS[1], now + 60000, ARGV[1])
redis.call('pexpire', KEYS[1], 60000)
return 1\`;
const ask = async (photo) => {
  const answer = await fetch('https://faces.example/check', { method: 'POST', body: photo${given} });
  return answer.json();
};
function limit(promise, ms) {
  let timer;
  const over = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('late')), ms); });
  return Promise.race([promise, over]).finally(() => clearTimeout(timer));
}
export async function check(photo) {
  const id = randomUUID();
  if ((await redis.eval(TAKE, 1, 'photo:slots', id)) !== 1) return null;
  try {
    return await limit(ask(photo), 12_000);
  } finally {
    await redis.zrem('photo:slots', id).catch(() => {});
  }
}`;

it.each([1, 4])('finds one request that is given up and goes on, with %i slots', async (slots) => {
  expect(await idsOfModule(checking(slots, ''))).toEqual(['releases-early']);
  expect(await idsOfModule(checking(slots, ', signal: AbortSignal.timeout(10_000)'))).toEqual([]);
});
