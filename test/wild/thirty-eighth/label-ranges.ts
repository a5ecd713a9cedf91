import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'label-ranges' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 3 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });

// Our Redis is 8.4, hence SET ... IFEQ and DELEX instead of scripts.
const TTL_MS = 20_000;
const BEAT_MS = 6_000;
const MARGIN_MS = 2_000;

export class LockBusy extends Error {}
export class LockLost extends Error {}

export async function withLock<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const askedAt = performance.now();
  if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') throw new LockBusy(key);

  const lost = new AbortController();
  let over = false;
  let lapse: NodeJS.Timeout | undefined;
  const holdFrom = (sentAt: number) => {
    clearTimeout(lapse);
    const left = sentAt + TTL_MS - MARGIN_MS - performance.now();
    lapse = setTimeout(() => lost.abort(new LockLost(key)), Math.max(0, left));
  };
  holdFrom(askedAt);

  const beat = setInterval(() => {
    const sentAt = performance.now();
    redis.call('SET', key, token, 'IFEQ', token, 'PX', TTL_MS).then(
      (reply) => {
        if (over) return;
        if (reply === 'OK') holdFrom(sentAt);
        else lost.abort(new LockLost(key));
      },
      (err) => log.warn({ err, key }, 'beat failed'),
    );
  }, BEAT_MS);

  try {
    return await work(lost.signal);
  } finally {
    over = true;
    clearInterval(beat);
    clearTimeout(lapse);
    await redis.call('DELEX', key, 'IFEQ', token).catch((err) => log.warn({ err, key }, 'release failed'));
  }
}

async function carrierAccepts(carrier: string, first: number, last: number, signal: AbortSignal): Promise<boolean> {
  const url = `${process.env.CARRIER_GATEWAY}/${carrier}/ranges/check?first=${first}&last=${last}`;
  const res = await fetch(url, { signal });
  if (!res.ok) throw new Error(`carrier gateway answered ${res.status}`);
  const body = (await res.json()) as { usable: boolean };
  return body.usable;
}

/** Hands a contiguous block of tracking numbers to a depot. */
export function allotRange(carrier: string, depot: string, count: number) {
  return withLock(`labels:${carrier}`, async (signal) => {
    const { rows } = await pool.query<{ next_no: string }>(
      'SELECT next_no FROM label_counters WHERE carrier = $1',
      [carrier],
    );
    if (rows.length === 0) throw new Error(`unknown carrier ${carrier}`);
    const first = Number(rows[0].next_no);
    const last = first + count - 1;
    if (!(await carrierAccepts(carrier, first, last, signal))) {
      throw new Error(`${carrier} does not accept ${first}-${last}`);
    }

    signal.throwIfAborted();
    const moved = await pool.query(
      `WITH moved AS (
         UPDATE label_counters SET next_no = $3::bigint + 1
         WHERE carrier = $1 AND next_no = $2::bigint RETURNING carrier
       )
       INSERT INTO label_ranges (carrier, depot, first_no, last_no)
       SELECT carrier, $4, $2::bigint, $3::bigint FROM moved`,
      [carrier, first, last, depot],
    );
    if (moved.rowCount !== 1) throw new LockLost(`labels:${carrier}`);
    return { first, last };
  });
}
