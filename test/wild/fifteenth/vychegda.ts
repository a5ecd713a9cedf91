import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const lua = {
  release: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])`,
  extend: `
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
    return 1`,
};

const ANSWER_MS = 500;
const MARGIN = (ttlMs: number) => ttlMs / 100 + 2;

/** Rejects if there is no answer in time. */
async function ask<T>(request: Promise<T>): Promise<T> {
  const answered = new AbortController();
  const silence = delay(ANSWER_MS, undefined, { signal: answered.signal }).then(
    () => Promise.reject(new Error('no answer')),
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([request, silence]);
  } finally {
    answered.abort();
  }
}

type Held = { redis: Redis; key: string; token: string; expiresAt: number };

const over = (held: Held) => Date.now() >= held.expiresAt;

async function release(held: Held): Promise<boolean> {
  held.expiresAt = 0;
  try {
    return (await ask(held.redis.eval(lua.release, 1, held.key, held.token))) === 1;
  } catch {
    return false;
  }
}

async function extend(held: Held, ttlMs: number): Promise<Held> {
  if (over(held)) throw new Error('expired');
  const sentAt = Date.now();
  const reply = await ask(held.redis.eval(lua.extend, 1, held.key, held.token, ttlMs));
  if (reply !== 1 || over(held)) {
    await release(held);
    throw new Error('lost');
  }
  held.expiresAt = Math.max(held.expiresAt, sentAt + ttlMs - MARGIN(ttlMs));
  return held;
}

/**
 * SET with GET returns whose key it was. After an answer that did not come, the same request is sent again: if the key
 * is ours by then, the first one arrived.
 */
async function acquire(redis: Redis, key: string, ttlMs: number): Promise<Held | null> {
  const token = randomBytes(18).toString('base64');
  const giveUpAt = Date.now() + 3 * ttlMs;
  do {
    const sentAt = Date.now();
    try {
      const owner = await ask(redis.set(key, token, 'PX', ttlMs, 'NX', 'GET'));
      if (owner === null || owner === token) {
        const held: Held = { redis, key, token, expiresAt: sentAt + ttlMs - MARGIN(ttlMs) };
        if (!over(held)) return held;
        await release(held);
      }
    } catch {
      // It is asked again.
    }
    await delay(Math.round(40 + Math.random() * 120));
  } while (Date.now() < giveUpAt);
  await release({ redis, key, token, expiresAt: 0 });
  return null;
}

export const make: MakeLock = ({ nodes: [redis] }) => ({
  acquire: (resource, ttlMs) => acquire(redis, `l:${resource}`, ttlMs),
  release: (held) => release(held as Held),
  extend: (held, ttlMs) => extend(held as Held, ttlMs),
});
