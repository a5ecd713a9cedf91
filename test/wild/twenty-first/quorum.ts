import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

// LOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379,redis://d:6379,redis://e:6379
// Five stand-alone masters in three zones, AOF with fsync on every write.
const nodes = (process.env.LOCK_NODES ?? '')
  .split(',')
  .filter(Boolean)
  .map((url) => {
    const node = new Redis(url, {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 1,
      commandTimeout: 250,
    });
    node.on('error', () => {}); // visible in node.status
    return node;
  });

export type Grant = { key: string; token: string; validUntil: number };

export class LockUnavailable extends Error {
  constructor(key: string) {
    super(`no quorum for ${key}`);
    this.name = 'LockUnavailable';
  }
}

const RELEASE = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

async function tryOnce(key: string, ttlMs: number): Promise<Grant | null> {
  const token = randomUUID();
  const startedAt = performance.now();

  // Nodes that are down for maintenance take no part in the vote, otherwise a
  // patch night would leave us one hiccup away from a standstill.
  const voters = nodes.filter((node) => node.status === 'ready');
  const quorum = Math.floor(voters.length / 2) + 1;

  const votes = await Promise.allSettled(voters.map((node) => node.set(key, token, 'PX', ttlMs, 'NX')));
  const yes = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;

  const drift = Math.ceil(ttlMs * 0.01) + 2;
  const validUntil = startedAt + ttlMs - drift;
  const grant = { key, token, validUntil };

  if (yes >= quorum && performance.now() < validUntil) return grant;
  await release(grant);
  return null;
}

export async function acquire(key: string, ttlMs = 20_000, tries = 10): Promise<Grant> {
  for (let i = 0; i < tries; i++) {
    const grant = await tryOnce(`q:${key}`, ttlMs);
    if (grant) return grant;
    await sleep(50 + Math.random() * 200);
  }
  throw new LockUnavailable(key);
}

/** Goes to every node, also to those that did not answer in time. */
export async function release({ key, token }: Pick<Grant, 'key' | 'token'>): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
}

/**
 * `fn` gets a function that throws unless the lock is good for another `ms`; it
 * has to be called in front of every write, with the time limit of that write.
 */
export async function withQuorum<T>(
  key: string,
  fn: (ensure: (ms: number) => void) => Promise<T>,
): Promise<T> {
  const grant = await acquire(key);
  try {
    return await fn((ms) => {
      if (performance.now() + ms >= grant.validUntil) throw new Error(`${key}: not enough time left`);
    });
  } finally {
    await release(grant);
  }
}
