import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const nodes = ['REDIS_A', 'REDIS_B', 'REDIS_C'].map((name, i) => {
  const node = new Redis(process.env[name] ?? `redis://127.0.0.1:${6379 + i}`, {
    commandTimeout: 300,
    maxRetriesPerRequest: 1,
  });
  node.on('error', () => {});
  return node;
});

const QUORUM = Math.floor(nodes.length / 2) + 1;
const ROUNDS = 3;

// Safe to send again: a node that has given us its vote says so once more.
const VOTE = `
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then return 1 end
if owner then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

async function askAll(key, token, ttl) {
  const replies = await Promise.allSettled(nodes.map((node) => node.eval(VOTE, 1, key, token, ttl)));
  return replies.filter((r) => r.status === 'fulfilled' && r.value === 1).length;
}

async function releaseAll(key, token) {
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
}

/**
 * Asks the three nodes for the lock. A node may be slow to answer or in the middle of a
 * restart, so they are asked again, up to three rounds, before we give up.
 */
export async function lock(key, ttl = 10_000) {
  const token = randomUUID();
  const start = performance.now();
  const validUntil = start + ttl - (ttl * 0.01 + 2);
  let votes = 0;

  for (let round = 0; round < ROUNDS; round++) {
    votes += await askAll(key, token, ttl);
    if (performance.now() >= validUntil) break;
    if (votes >= QUORUM) {
      return {
        key,
        validUntil,
        isValid: () => performance.now() < validUntil,
        unlock: () => releaseAll(key, token),
      };
    }
    await sleep(50 + Math.random() * 50);
  }

  await releaseAll(key, token);
  return null;
}

export async function withLock(key, fn, ttl = 10_000) {
  const held = await lock(key, ttl);
  if (!held) throw new Error(`${key} is locked`);
  try {
    return await fn(held);
  } finally {
    await held.unlock();
  }
}
