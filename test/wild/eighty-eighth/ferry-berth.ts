import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

export interface BerthLock {
  readonly key: string;
  readonly value: string;
  readonly validUntil: number;
}

export interface BerthLockOptions {
  ttlMs?: number;
  tries?: number;
}

const NODES = process.env.BERTH_LOCK_NODES ?? 'berth-r1:6379,berth-r2:6379,berth-r3:6379,berth-r4:6379';

const clients = NODES.split(',').map((node) => {
  const [host, port = '6379'] = node.trim().split(':');
  const client = new Redis({ host, port: Number(port), commandTimeout: 250, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  client.on('error', (err) => console.warn(`berth lock ${node}: ${err.message}`));
  return client;
});

const QUORUM = Math.ceil(clients.length / 2);

export async function acquireBerth(berth: string, { ttlMs = 8_000, tries = 6 }: BerthLockOptions = {}): Promise<BerthLock | null> {
  const key = `ferry:berth:${berth}`;
  for (let i = 0; i < tries; i++) {
    const value = randomUUID();
    const startedAt = performance.now();
    const votes = await count((c) => c.set(key, value, 'PX', ttlMs, 'NX'), 'OK');
    const validUntil = startedAt + ttlMs - (ttlMs * 0.01 + 2);
    const lock = { key, value, validUntil };
    if (votes >= QUORUM && performance.now() < validUntil) return lock;
    await releaseBerth(lock);
    await sleep(80 + Math.random() * 220);
  }
  return null;
}

export async function extendBerth(lock: BerthLock, ttlMs = 8_000): Promise<BerthLock | null> {
  const startedAt = performance.now();
  if (startedAt >= lock.validUntil) return null;
  const votes = await count((c) => c.eval(EXTEND, 1, lock.key, lock.value, ttlMs), 1);
  const validUntil = startedAt + ttlMs - (ttlMs * 0.01 + 2);
  return votes >= QUORUM && performance.now() < validUntil ? { ...lock, validUntil } : null;
}

export async function releaseBerth(lock: BerthLock): Promise<void> {
  await count((c) => c.eval(RELEASE, 1, lock.key, lock.value), 1);
}

export async function withBerth<T>(berth: string, fn: (signal: AbortSignal) => Promise<T>, opts?: BerthLockOptions): Promise<T> {
  const lock = await acquireBerth(berth, opts);
  if (!lock) throw new Error(`berth ${berth} is being assigned by someone else`);
  const signal = AbortSignal.timeout(Math.max(0, Math.floor(lock.validUntil - performance.now())));
  try {
    const out = await fn(signal);
    signal.throwIfAborted();
    return out;
  } finally {
    await releaseBerth(lock);
  }
}

async function count(op: (c: Redis) => Promise<unknown>, want: unknown): Promise<number> {
  const replies = await Promise.allSettled(clients.map(op));
  return replies.filter((r) => r.status === 'fulfilled' && r.value === want).length;
}

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
