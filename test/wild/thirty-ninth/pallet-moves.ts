import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const LEASE_MS = 15_000;
const MARGIN_MS = 500;
const WMS = process.env.WMS_URL ?? 'http://wms.internal';

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const TAKE = `
local holder = redis.call('GET', KEYS[1])
if not holder or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const drop = (key: string, token: string) =>
  redis.eval(DROP, { keys: [key], arguments: [token] }).catch((err) => console.warn('drop', key, err));

async function withLease<T>(key: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const token = randomUUID();
  let until = 0;
  for (let attempt = 0; attempt < 12 && until === 0; attempt++) {
    if (attempt > 0) await sleep(100 + Math.random() * 150);
    const startedAt = performance.now();
    try {
      const got = await redis.eval(TAKE, { keys: [key], arguments: [token, String(LEASE_MS)] });
      if (Number(got) === 1) until = startedAt + LEASE_MS - MARGIN_MS;
    } catch (err) {
      // connection hiccup: just ask again
      console.warn('take', key, err);
    }
  }
  const left = Math.floor(until - performance.now());
  if (left <= 0) {
    await drop(key, token);
    throw new Error(`could not get ${key}`);
  }
  try {
    return await fn(AbortSignal.timeout(left));
  } finally {
    await drop(key, token);
  }
}

interface Move {
  id: string;
  palletId: string;
  aisle: string;
}

export function putAway(move: Move): Promise<string> {
  return withLease(`lease:aisle:${move.aisle}`, async (signal) => {
    const known = await fetch(`${WMS}/moves/${move.id}`, { signal });
    if (known.ok) return ((await known.json()) as { slot: string }).slot;
    if (known.status !== 404) throw new Error(`wms: ${known.status}`);

    const free = await fetch(`${WMS}/aisles/${move.aisle}/next-free-slot`, { signal });
    if (!free.ok) throw new Error(`no slot in aisle ${move.aisle}: ${free.status}`);
    const { slot, version } = (await free.json()) as { slot: string; version: number };

    // the WMS answers 412 if the move exists or the slot has another version by now
    const res = await fetch(`${WMS}/moves/${move.id}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json', 'if-none-match': '*' },
      body: JSON.stringify({ palletId: move.palletId, slot, slotVersion: version }),
      signal,
    });
    if (!res.ok) throw new Error(`move ${move.id} refused: ${res.status}`);
    return slot;
  });
}
