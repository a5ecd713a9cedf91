import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';

const STREAM = 'telemetry:meters';
const DEAD = 'telemetry:meters:dead';
const GROUP = 'energy-totals';
const CONSUMER = `${hostname()}-${process.pid}`;
const MIN_IDLE_MS = 60_000;
const LOCK_MS = 15_000;

type Entry = [id: string, fields: string[]];

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const blocking = redis.duplicate({ maxRetriesPerRequest: null });
const db = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 2_000, query_timeout: 2_500 });

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

function toObject(fields: string[]): Record<string, string> {
  const out: Record<string, string> = {};
  for (let i = 0; i + 1 < fields.length; i += 2) out[fields[i]] = fields[i + 1];
  return out;
}

async function applyReading(id: string, meterId: string, kwh: number, peakKw: number): Promise<void> {
  const client = await db.connect();
  let broken = true;
  try {
    await client.query('BEGIN');
    const fresh = await client.query(
      'INSERT INTO applied_readings (stream_id) VALUES ($1) ON CONFLICT DO NOTHING',
      [id],
    );
    if (fresh.rowCount === 1) {
      await client.query(
        `INSERT INTO meter_totals AS t (meter_id, kwh, peak_kw) VALUES ($1, $2, $3)
         ON CONFLICT (meter_id) DO UPDATE
           SET kwh = t.kwh + EXCLUDED.kwh, peak_kw = GREATEST(t.peak_kw, EXCLUDED.peak_kw)`,
        [meterId, kwh, peakKw],
      );
    }
    await client.query('COMMIT');
    broken = false;
  } finally {
    client.release(broken);
  }
}

async function handle([id, fields]: Entry): Promise<void> {
  const msg = toObject(fields);
  const kwh = Number(msg.kwh);
  const peakKw = Number(msg.peakKw);
  if (!msg.meterId || !Number.isFinite(kwh) || !Number.isFinite(peakKw)) {
    await redis.multi().xadd(DEAD, '*', 'source', id, ...fields).xack(STREAM, GROUP, id).exec();
    return;
  }

  const lockKey = `lock:meter:${msg.meterId}`;
  const token = randomUUID();
  if ((await redis.set(lockKey, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
    return; // stays pending, reclaim() picks it up again
  }
  try {
    await applyReading(id, msg.meterId, kwh, peakKw);
    await redis.xack(STREAM, GROUP, id);
  } finally {
    await redis.eval(UNLOCK, 1, lockKey, token).catch(() => undefined);
  }
}

async function handleAll(entries: Array<Entry | null>): Promise<void> {
  for (const entry of entries) {
    if (!entry?.[1]) continue; // trimmed from the stream
    try {
      await handle(entry);
    } catch (err) {
      console.error(`reading ${entry[0]} failed`, err);
    }
  }
}

async function reclaim(): Promise<void> {
  let cursor = '0-0';
  do {
    const reply = await redis.xautoclaim(STREAM, GROUP, CONSUMER, MIN_IDLE_MS, cursor, 'COUNT', 50);
    const [next, entries] = reply as [string, Array<Entry | null>];
    await handleAll(entries);
    cursor = next;
  } while (cursor !== '0-0');
}

export async function run(signal: AbortSignal): Promise<void> {
  await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM').catch((err: Error) => {
    if (!err.message.includes('BUSYGROUP')) throw err;
  });
  while (!signal.aborted) {
    try {
      await reclaim();
      const reply = (await blocking.xreadgroup(
        'GROUP', GROUP, CONSUMER, 'COUNT', 50, 'BLOCK', 5_000, 'STREAMS', STREAM, '>',
      )) as Array<[string, Entry[]]> | null;
      for (const [, entries] of reply ?? []) await handleAll(entries);
    } catch (err) {
      console.error('consumer loop', err);
      await sleep(1_000);
    }
  }
}
