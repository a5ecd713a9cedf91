import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** A name that is made of both sides. */
const OF_BOTH = `\`transfer:\${[from, to].sort().join(':')}\``;

/** The same of one side. */
const OF_ONE = `\`account:\${from}\``;

/** Moves an amount under a lock of this name. */
const transfer = (key: string, sets: string): string => `
import { randomUUID } from 'node:crypto';
import express from 'express';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const app = express();
app.post('/transfers', async (req, res) => {
  const { from, to, cents } = req.body;
  const key = ${key}, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return res.status(409).end();
  try {
    const { rows } = await db.query('SELECT id, balance FROM accounts WHERE id = ANY($1)', [[from, to]]);
    const source = rows.find((it) => it.id === from), target = rows.find((it) => it.id === to);
    if (!source || !target) return res.status(404).end();
    await db.query('UPDATE accounts SET balance = ${sets} WHERE id = $1', [from, source.balance - cents]);
    await db.query('UPDATE accounts SET balance = ${sets} WHERE id = $1', [to, target.balance + cents]);
    res.status(201).end();
  } finally { await redis.eval("${UNLOCK}", 1, key, token); }
});`;

it('finds a lock that is named after both sides of a transfer together', async () => {
  expect(await idsOf(transfer(OF_BOTH, '$2'))).toEqual(['key-of-pair']);
});

it('finds nothing where one lock is for all, or each side is changed by one atomic statement', async () => {
  expect(await idsOf(transfer("'transfers'", '$2'))).toEqual([]);
  expect(await idsOf(transfer(OF_BOTH, 'balance + $2'))).toEqual([]);
});

it('finds a lock that is named after one side of a transfer, and nothing where the database guards the other', async () => {
  const ofOne = transfer(OF_ONE, '$2');
  expect(await idsOf(ofOne)).toEqual(['key-of-side']);
  expect(await idsOf(ofOne.replace('= ANY($1)', '= ANY($1) FOR UPDATE'))).toEqual([]);
});

/** Opens what two have together under a lock of this name. */
const opening = (key: string, finds: string): string => `
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
export async function open(one: string, other: string): Promise<string | null> {
  const key = ${key}, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return null;
  try {
    const { rows } = await db.query('SELECT id FROM threads WHERE ${finds}', [one, other]);
    if (rows.length > 0) return rows[0].id;
    await db.query('INSERT INTO threads (id, a, b) VALUES ($1, $2, $3)', [token, one, other]);
    return token;
  } finally { await redis.eval("${UNLOCK}", 1, key, token); }
}`;

const AS_GIVEN = `\`thread:\${one}:\${other}\``;
const EITHER = '(a = $1 AND b = $2) OR (a = $2 AND b = $1)';

it.each([
  ['a lock that is named after two in the order given', AS_GIVEN, EITHER, ['key-of-order']],
  ['no lock that is named after two that are sorted', `\`thread:\${[one, other].sort().join(':')}\``, EITHER, []],
  ['no lock of what has one order', AS_GIVEN, 'a = $1 AND b = $2', []],
  ['no lock of what the database keeps from being there twice', AS_GIVEN, `${EITHER} /* a unique index */`, []],
])('finds %s', async (_, key, finds, ids) => {
  expect(await idsOf(opening(key, finds))).toEqual(ids);
});

it('finds a lock that is named after a transfer, and after none of its sides', async () => {
  const ofId = (from: string): string => transfer(`\`transfer:\${req.headers['idempotency-key']}\``, from);
  expect(await idsOf(ofId('$2'))).toEqual(['key-of-side']);
  expect(await idsOf(ofId('balance + $2'))).toEqual([]);
});

/** Books a room under a lock of this name where no stay `clashes`. */
const stay = (key: string, clashes: string): string => `
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
export async function book(roomId: string, arrival: string, departure: string): Promise<boolean> {
  const key = ${key}, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return false;
  try {
    const { rows } = await db.query('SELECT 1 FROM stays WHERE room = $1 AND ${clashes}', [roomId, arrival, departure]);
    if (rows.length > 0) return false;
    await db.query('INSERT INTO stays (room, arrival, departure) VALUES ($1, $2, $3)', [roomId, arrival, departure]);
    return true;
  } finally { await redis.eval("${UNLOCK}", 1, key, token); }
}`;

it('finds a lock that is named after the beginning of a range, where the file looks for what overlaps that', async () => {
  const overlaps = 'arrival < $3 AND departure > $2';
  const ofRoom = `\`room:\${roomId}\``;
  const ofStart = `\`room:\${roomId}:\${arrival}\``;
  expect(await idsOf(stay(ofStart, overlaps))).toEqual(['key-of-start']);
  expect(await idsOf(stay(ofRoom, overlaps))).toEqual([]);
  expect(await idsOf(stay(ofStart, 'arrival = $2'))).toEqual([]);
  expect(await idsOf(stay(ofStart, `${overlaps} FOR UPDATE`))).toEqual([]);
});

/** Moves points between two wallets that Redis has, under locks of these names. */
const wallets = (key: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
interface Wallet { id: string; points: number }
export async function move(redis: Redis, order: { from: string; to: string; points: number }): Promise<void> {
  const key = ${key}, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    const load = async (id: string): Promise<Wallet> => {
      const raw = await redis.get('wallet:' + id);
      if (raw === null) throw new Error('no wallet');
      return JSON.parse(raw) as Wallet;
    };
    const from = await load(order.from), to = await load(order.to);
    from.points -= order.points;
    to.points += order.points;
    await redis.multi().set('wallet:' + from.id, JSON.stringify(from)).set('wallet:' + to.id, JSON.stringify(to)).exec();
  } finally { await redis.eval("${UNLOCK}", 1, key, token); }
}`;

it('finds the same where both sides are stored in Redis', async () => {
  expect(await idsOf(wallets(`\`wallet:lock:\${order.from}:\${order.to}\``))).toEqual(['key-of-pair']);
  expect(await idsOf(wallets("'wallets'"))).toEqual([]);
});
