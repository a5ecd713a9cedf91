import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const UNLOCK = `"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"`;
const HEAD = `import { randomUUID } from 'node:crypto';
import express from 'express';
import { Redis } from 'ioredis';
import pg from 'pg';
import { z } from 'zod';
const redis = new Redis(process.env.REDIS_URL!);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const app = express();
const walletOf = async (id: string) => (await pool.query('SELECT * FROM wallets WHERE id = $1', [id])).rows[0] ?? null;
`;

/** A request that is refused unless what it finds belongs to who asks. */
const withdraw = (again: string): string => `${HEAD}
app.post('/wallets/:id/withdraw', async (req, res) => {
  const amount = Number(req.body?.amount);
  if (!Number.isInteger(amount) || amount <= 0) return res.status(400).end();
  const before = await walletOf(req.params.id);
  if (!before) return res.status(404).end();
  if (before.ownerId !== req.header('x-user-id')) return res.status(403).end();
  const key = 'wallet:' + before.id, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return res.status(429).end();
  try {
    ${again}
    if (wallet.balance < amount) return res.status(422).end();
    const db = await pool.connect();
    await db.query('UPDATE wallets SET balance = $2 WHERE id = $1', [wallet.id, wallet.balance - amount]);
    return res.status(201).end();
  } finally { await redis.eval(${UNLOCK}, 1, key, token); }
});`;

it('does what comes after a condition on what is not known', async () => {
  expect(await idsOf(withdraw('const wallet = before;'))).toEqual(['reads-before-lock']);
  expect(await idsOf(withdraw('const wallet = await walletOf(req.params.id);'))).toEqual([]);
});

/** The same with a lock on several nodes. */
const onThree = (again: string): string =>
  withdraw(again)
    .replace(
      'new Redis(process.env.REDIS_URL!)',
      "new Redlock([1, 2, 3].map((it) => new Redis('redis://lock-' + it + ':6379')))",
    )
    .replace("import pg from 'pg';", "import pg from 'pg';\nimport Redlock from 'redlock5';")
    .replace(/if \(\(await redis\.set\(key[^\n]*/, 'const lock = await redis.acquire([key], 30_000);')
    .replace(/await redis\.eval\([^\n]*token\);/, 'await lock.release();');

it('finds what a lock on several nodes stores of what was read before it', async () => {
  expect(await idsOf(onThree('const wallet = before;'))).toEqual(['reads-before-lock']);
  expect(await idsOf(onThree('const wallet = await walletOf(req.params.id);'))).toEqual([]);
});

/** Requests of which one stores a quote, and the other one has a lock with this TTL. */
const redeeming = (lockTtl: number): string => `${HEAD}
const env = z.object({ PARTNER_URL: z.string().url(), LOCK_TTL: z.coerce.number().default(${lockTtl}) }).parse(process.env);
app.post('/quotes', async (req, res) => {
  await redis.set('quote:' + req.body.member, JSON.stringify({ reward: req.body.reward }), 'EX', 900);
  res.json({ member: req.body.member });
});
app.post('/redemptions', async (req, res) => {
  const { member, reward } = req.body;
  const raw = await redis.get('quote:' + member);
  const quote = raw ? JSON.parse(raw) : null;
  if (!quote || quote.reward !== reward) return res.status(410).end();
  const key = 'redeem:' + member, token = randomUUID();
  if ((await redis.set(key, token, 'PX', env.LOCK_TTL, 'NX')) !== 'OK') return res.status(409).end();
  try {
    await fetch(env.PARTNER_URL + '/reservations', { method: 'POST' });
    res.status(201).end();
  } finally { await redis.eval(${UNLOCK}, 1, key, token); }
});`;

it('takes the function with the lock, not one that stores a value, and the defaults of a schema', async () => {
  const { ids, understood } = await audited(redeeming(30_000));
  expect(ids).toEqual([]);
  expect(understood).toContain('post /redemptions');
  expect(await idsOf(redeeming(45))).toEqual(['seconds-as-ms']);
});

/** A handler that does not wait for what it has begun. */
const holding = (busy: string): string => `${HEAD}
const wrap = (handle) => (req, res, next) => { handle(req, res).catch(next); };
app.post('/seats/:seat', wrap(async (req, res) => {
  const key = 'seat:' + req.params.seat, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') ${busy}
  try {
    await pool.query('INSERT INTO bookings (seat) VALUES ($1)', [req.params.seat]);
    res.status(201).end();
  } finally { await redis.eval(${UNLOCK}, 1, key, token); }
}));`;

it('waits until a request has its response', async () => {
  expect(await idsOf(holding('return res.status(409).end();'))).toEqual([]);
  expect(await idsOf(holding("console.warn('busy');"))).toEqual(['fails-open']);
});

it('sees that work is done without the lock, though what it stores is named by chance', async () => {
  // SET answers null where there is a key, and SETNX answers 0.
  const text = holding('return res.status(409).end();').replace("!== 'OK'", '=== 0');
  const named = text.replace(/await pool\.query\('INSERT[^;]*/, 'await pool.files.put(randomUUID())');
  expect(await idsOf(named)).toEqual(['fails-open']);
});

/** A lock whose client connects as its application begins. */
const connecting = (busy: string): string => `import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
const redis = createClient({ url: process.env.REDIS_URL });
export default async function routes(app) {
  app.addHook('onReady', async () => { await redis.connect(); });
  app.addHook('onClose', async () => { await redis.quit(); });
  app.post('/visits', async (req, reply) => {
    const key = 'visit:' + req.body.id, token = randomUUID();
    if ((await redis.set(key, token, { NX: true, PX: 30_000 })) !== 'OK') ${busy}
    try { await app.db.insert('visits', { id: req.body.id }); return reply.code(201).send(); }
    finally { await redis.eval(${UNLOCK}, { keys: [key], arguments: [token] }); }
  });
}`;

it('runs what an application does as it begins', async () => {
  expect(await idsOf(connecting('return reply.code(409).send();'))).toEqual([]);
  expect(await idsOf(connecting("console.warn('busy');"))).toEqual(['fails-open']);
});

it('stands for a file that is not there, though a module of this project has its name', async () => {
  const text = holding('return res.status(409).end();')
    .replace("import pg from 'pg';", "import pg from 'pg';\nimport { put } from './search';")
    .replace('res.status(201)', 'await put(req.params.seat);\n    res.status(201)');
  expect((await audited(text)).understood).toContain('./search: not there, and so not loaded');
});
