import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** Books an event that may come twice: `looks` before it waits for the lock, `inside` it, and appends by this method. */
const booking = (looks: string, inside: string, append = 'append'): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Ledger { hasEvent(id: string): Promise<boolean>; ${append}(id: string, points: number): Promise<void> }
export class Points {
  constructor(private readonly redis: Redis, private readonly ledger: Ledger) {}
  async handle(event: { eventId: string; points: number }): Promise<void> {
    ${looks}
    const [key, token] = ['points:' + event.eventId, randomUUID()];
    for (let i = 0; (await this.redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK'; i++) {
      if (i > 40) throw new Error('busy');
      await new Promise((done) => setTimeout(done, 200));
    }
    try {
      ${inside}
      await this.ledger.${append}(event.eventId, event.points);
    } finally { await this.redis.eval(UNLOCK, 1, key, token); }
  }
}`;

const LOOK = 'if (await this.ledger.hasEvent(event.eventId)) return;';

it('finds that what was looked for before the wait may have been done since', async () => {
  expect(await idsOf(booking(LOOK, ''))).toEqual(['looks-before-lock']);
});

it.each([
  ['looks inside', booking('', LOOK)],
  ['looks again inside', booking(LOOK, LOOK)],
  ['appends what is not there alone', booking(LOOK, '', 'appendOnce')],
  [
    'does what a constraint keeps from being done twice',
    `// The id of an event is unique in the ledger.\n${booking(LOOK, '')}`,
  ],
])('lets pass one that %s', async (_, text) => {
  expect(await idsOf(text)).toEqual([]);
});

it('lets pass one that looks again by a query builder', async () => {
  const look = "if (await knex('events').where({ id: event.eventId }).first()) return;";
  const text = booking(look, look).replace(/await this\.ledger\.append\(.*\)/, "await knex('events').insert({})");
  expect(await idsOf(`import make from 'knex';\nconst knex = make({ client: 'pg' });\n${text}`)).toEqual([]);
});

/** A pair of functions, and one that works under them and notes in the key how far it has come. */
const noting = (keeps: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const NOTE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], ARGV[1]${keeps}) return 1";
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Held { key: string; token: string }
export async function acquireImport(redis: Redis, carrier: string): Promise<Held | null> {
  const held = { key: 'import:' + carrier, token: randomUUID() };
  return (await redis.set(held.key, held.token, 'PX', 60_000, 'NX')) === 'OK' ? held : null;
}
export async function noteProgress(redis: Redis, held: Held): Promise<void> {
  if ((await redis.eval(NOTE, 1, held.key, held.token)) !== 1) throw new Error('lost');
}
export async function releaseImport(redis: Redis, held: Held): Promise<void> {
  await redis.eval(UNLOCK, 1, held.key, held.token);
}
export async function importManifest(redis: Redis, carrier: string, rows: string[], repo: { insert(row: string): Promise<void> }) {
  const held = await acquireImport(redis, carrier);
  if (held === null) return false;
  try {
    for (const row of rows) { await noteProgress(redis, held); await repo.insert(row); }
    return true;
  } finally { await releaseImport(redis, held); }
}`;

it('finds that a function beside the lock takes the TTL from its key', async () => {
  expect(await idsOf(noting(''))).toEqual(['drops-ttl']);
  expect(await idsOf(noting(", 'KEEPTTL'"))).toEqual([]);
});

/** A class whose private lock is around what one of its methods does, with a look before it or inside. */
const seats = (before: string, inside: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Seats { findSeat(label: string): Promise<{ status: 'free' | 'held' } | null>; updateSeat(label: string, customer: string): Promise<void> }
export class Holds {
  constructor(private readonly redis: Redis, private readonly db: Seats) {}
  async hold(label: string, customer: string): Promise<void> {
    ${before}
    const key = 'seat:' + label;
    const token = await this.acquire(key);
    try {
      ${inside}
      await this.db.updateSeat(label, customer);
    } finally { await this.release(key, token); }
  }
  private async acquire(key: string): Promise<string> {
    const token = randomUUID();
    for (let i = 0; (await this.redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK'; i++) {
      if (i > 40) throw new Error('busy');
      await new Promise((done) => setTimeout(done, 200));
    }
    return token;
  }
  private async release(key: string, token: string): Promise<void> { await this.redis.eval(UNLOCK, 1, key, token); }
}`;

const IS_FREE = `const seat = await this.db.findSeat(label);
if (!seat) throw new Error('no seat');
if (seat.status !== 'free') throw new Error('not free');`;

it('finds it of a method beside a lock, for a thing that has to be in a state', async () => {
  expect(await idsOf(seats(IS_FREE, ''))).toEqual(['looks-before-lock']);
});

it('lets pass a method that looks inside', async () => {
  expect(await idsOf(seats('', IS_FREE))).toEqual([]);
});

/** Lends an instrument by a route, which looks `before` it waits for the lock, and `inside` it. */
const lending = (before: string, inside: string): string => `import { randomUUID } from 'node:crypto';
import express from 'express';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
const [redis, pool, router] = [new Redis(process.env.REDIS_URL!), new Pool(), express.Router()];
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function withLock(id: string, work: () => Promise<void>): Promise<void> {
  const [key, token] = ['instrument:' + id, randomUUID()];
  for (let i = 0; (await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK'; i++) {
    if (i > 40) throw new Error('busy');
    await new Promise((done) => setTimeout(done, 200));
  }
  try { await work(); } finally { await redis.eval(UNLOCK, 1, key, token); }
}
const LENT = 'SELECT id FROM rentals WHERE instrument_id = $1 AND returned_at IS NULL';
router.post('/instruments/:id/rentals', async (req, res) => {
  const { id } = req.params;
  ${before}
  await withLock(id, async () => {
    ${inside}
    await pool.query('INSERT INTO rentals (instrument_id) VALUES ($1)', [id]);
  });
  res.json({});
});
export { router, withLock };`;

it('finds a record that is looked for before the wait, and added under the lock, by the table of both', async () => {
  const look = 'const open = await pool.query(LENT, [id]); if (open.rows.length > 0) return res.status(409).json({});';
  const lookInside = "const open = await pool.query(LENT, [id]); if (open.rows.length > 0) throw new Error('lent');";
  expect(await idsOf(lending(look, ''))).toEqual(['looks-before-lock']);
  expect(await idsOf(lending(look, lookInside))).toEqual([]);
  expect(await idsOf(lending("await pool.query('SELECT name FROM pupils WHERE id = $1', [id]);", ''))).toEqual([]);
});
