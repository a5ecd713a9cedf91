import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';
import { Pool } from 'pg';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'payouts' });
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
export const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

interface Held {
  active: boolean;
  signal: AbortSignal;
}
const context = new AsyncLocalStorage<Map<string, Held>>();

async function acquire(key: string, token: string, ttl: number): Promise<number> {
  const until = Date.now() + 20_000;
  for (;;) {
    const sentAt = Date.now();
    if ((await redis.set(key, token, { NX: true, PX: ttl })) === 'OK') return sentAt + ttl;
    if (Date.now() > until) throw new Error(`${key} is busy`);
    await sleep(100 + Math.random() * 200);
  }
}

function keepAlive(key: string, token: string, ttl: number, validUntil: number, lost: AbortController): () => void {
  const every = ttl / 4;
  const timer = setInterval(() => {
    const sentAt = Date.now();
    if (sentAt > validUntil - every) lost.abort(new Error(`could not renew ${key}`));
    redis.eval(RENEW, { keys: [key], arguments: [token, String(ttl)] }).then(
      (ok) => {
        if (ok === 1) validUntil = Math.max(validUntil, sentAt + ttl);
        else lost.abort(new Error(`lost ${key}`));
      },
      (err) => log.warn({ err: err.message, key }, 'renewal failed'),
    );
  }, every);
  return () => clearInterval(timer);
}

/** Wraps fn so that it runs alone per key; calls made from inside with the same key run under the same lock. */
export function exclusive<A extends unknown[], R>(
  keyOf: (...args: A) => string,
  fn: (signal: AbortSignal, ...args: A) => Promise<R>,
  ttl = 30_000,
): (...args: A) => Promise<R> {
  return async (...args) => {
    const key = `lock:${keyOf(...args)}`;
    const outer = context.getStore();
    const held = outer?.get(key);
    if (held?.active) return fn(held.signal, ...args);

    const token = randomUUID();
    const validUntil = await acquire(key, token, ttl);
    const lost = new AbortController();
    const mine: Held = { active: true, signal: lost.signal };
    const stop = keepAlive(key, token, ttl, validUntil, lost);
    try {
      return await context.run(new Map(outer ?? []).set(key, mine), () => fn(lost.signal, ...args));
    } finally {
      mine.active = false;
      stop();
      await redis.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => undefined);
    }
  };
}

const batchKey = (batchId: string) => `payout-batch:${batchId}`;

export const recalculateBatch = exclusive(batchKey, async (_signal, batchId) => {
  await pool.query(
    `update payouts set amount_cents = gross_cents - fee_cents where batch_id = $1 and status = 'pending'`,
    [batchId],
  );
});

/** Pays every payout of a batch once. An interrupted batch is settled by calling again. */
export const settleBatch = exclusive(batchKey, async (signal, batchId) => {
  await recalculateBatch(batchId);
  const { rows } = await pool.query(
    `select id from payouts where batch_id = $1 and status in ('pending', 'submitted') order by id`,
    [batchId],
  );
  for (const { id } of rows) {
    signal.throwIfAborted();
    // from here on the amount is fixed
    const submitted = await pool.query(
      `update payouts set status = 'submitted' where id = $1 and status in ('pending', 'submitted')
       returning iban, amount_cents`,
      [id],
    );
    if (submitted.rowCount === 0) continue;
    const { iban, amount_cents: amount } = submitted.rows[0];
    // the bank keeps idempotency keys for ever
    const { data } = await axios.post(
      `${process.env.BANK_API}/transfers`,
      { iban, amount },
      { timeout: 10_000, signal, headers: { 'idempotency-key': `payout-${id}` } },
    );
    await pool.query(`update payouts set status = 'paid', bank_ref = $2 where id = $1 and status = 'submitted'`, [id, data.id]);
  }
});
