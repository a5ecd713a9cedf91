import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { log } from './logger.mjs';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));
await redis.connect();

export interface FencedLock {
  token: string;
  fence: number;
}

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

// Accepts a write only if no write with a higher fencing token came before it.
const WRITE = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'body', ARGV[2])
return 1`;

export async function lock(doc: string, ttl = 10_000, wait = 30_000): Promise<FencedLock> {
  const token = randomUUID();
  const fence = await redis.incr(`doc:{${doc}}:fence`);
  const deadline = Date.now() + wait;

  while (Date.now() < deadline) {
    const ok = await redis.set(`doc:{${doc}}:lock`, token, { NX: true, PX: ttl });
    if (ok === 'OK') return { token, fence };
    await sleep(50 + Math.random() * 100);
  }
  throw new Error(`document ${doc} is locked`);
}

export async function unlock(doc: string, held: FencedLock): Promise<void> {
  try {
    await redis.eval(UNLOCK, { keys: [`doc:{${doc}}:lock`], arguments: [held.token] });
  } catch (err) {
    log.warn({ err, doc }, 'unlock failed, lock will expire');
  }
}

export class StaleWriteError extends Error {
  constructor(doc: string, fence: number) {
    super(`write to ${doc} with fencing token ${fence} came too late`);
  }
}

async function write(doc: string, body: string, fence: number): Promise<void> {
  const ok = await redis.eval(WRITE, {
    keys: [`doc:{${doc}}`],
    arguments: [String(fence), body],
  });
  if (ok !== 1) throw new StaleWriteError(doc, fence);
}

/**
 * Changes a document under its lock. `change` may be slow: if it outlives the
 * lock, the fencing token keeps it from overwriting what others wrote since.
 */
export async function edit(doc: string, change: (body: string) => Promise<string>): Promise<void> {
  const held = await lock(doc);
  try {
    const body = (await redis.hGet(`doc:{${doc}}`, 'body')) ?? '';
    await write(doc, await change(body), held.fence);
  } finally {
    await unlock(doc, held);
  }
}
