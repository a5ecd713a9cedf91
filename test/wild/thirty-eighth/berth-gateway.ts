import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, createClientPool, WatchError } from 'redis';

const STREAM = 'harbour:berths';
const GROUP = 'gateway';
const CONSUMER = `${hostname()}-${process.pid}`;
const LOCK_MS = 20_000;
const CALL_MS = 8_000;

interface Batch {
  name: string;
  messages: { id: string; message: Record<string, string> }[];
}

const url = process.env.REDIS_URL;
const reader = createClient({ url });
reader.on('error', (err) => console.error('reader', err));
const pool = createClientPool({ url }, { minimum: 1, maximum: 6 });
pool.on('error', (err) => console.error('pool', err));

async function acquire(key: string): Promise<string | null> {
  const token = randomUUID();
  const reply = await pool.set(key, token, { NX: true, PX: LOCK_MS });
  return reply === 'OK' ? token : null;
}

// EVAL is switched off on this cluster, so the release is a WATCH on a connection of its own.
async function release(key: string, token: string): Promise<boolean> {
  return pool.execute(async (conn) => {
    try {
      await conn.watch(key);
      if ((await conn.get(key)) !== token) {
        await conn.unwatch();
        return false;
      }
      await conn.multi().del(key).exec();
      return true;
    } catch (err) {
      if (!(err instanceof WatchError)) console.warn('release of %s: %s', key, err);
      return false;
    }
  });
}

/** The gateway keeps the highest seq of each berth and answers 200 to anything it has already seen. */
async function tellGateway(fields: Record<string, string>): Promise<void> {
  const res = await fetch(`${process.env.GATEWAY_URL}/berths/${encodeURIComponent(fields.berth)}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ seq: Number(fields.seq), vessel: fields.vessel || null, until: fields.until }),
    signal: AbortSignal.timeout(CALL_MS),
  });
  if (!res.ok) throw new Error(`gateway answered ${res.status}`);
}

async function handle(id: string, fields: Record<string, string>): Promise<void> {
  const key = `lock:berth:${fields.berth}`;
  const token = await acquire(key);
  if (token === null) return; // stays pending, comes back through reclaim()
  try {
    await tellGateway(fields);
    await pool.xAck(STREAM, GROUP, id);
  } catch (err) {
    console.warn('berth %s, entry %s: %s', fields.berth, id, err);
  } finally {
    await release(key, token).catch((err) => console.warn('release of %s: %s', key, err));
  }
}

async function reclaim(): Promise<void> {
  const { messages } = await pool.xAutoClaim(STREAM, GROUP, CONSUMER, 60_000, '0-0', { COUNT: 5 });
  for (const entry of messages) {
    if (entry) await handle(entry.id, entry.message);
  }
}

async function main(): Promise<void> {
  await Promise.all([reader.connect(), pool.connect()]);
  await pool.xGroupCreate(STREAM, GROUP, '0', { MKSTREAM: true }).catch((err: Error) => {
    if (!err.message.startsWith('BUSYGROUP')) throw err;
  });
  for (;;) {
    try {
      await reclaim();
      const batch = (await reader.xReadGroup(
        GROUP,
        CONSUMER,
        { key: STREAM, id: '>' },
        { COUNT: 5, BLOCK: 5_000 },
      )) as unknown as Batch[] | null;
      for (const stream of batch ?? []) {
        for (const entry of stream.messages) await handle(entry.id, entry.message);
      }
    } catch (err) {
      console.error('consumer', err);
      await sleep(1_000);
    }
  }
}

void main();
