import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

/**
 * Lock over several independent Redis masters, after the Redlock algorithm.
 * No single node is a point of failure.
 */

const urls = (
  process.env.REDIS_NODES ??
  'redis://redis-1:6379,redis://redis-2:6379,redis://redis-3:6379,redis://redis-4:6379,redis://redis-5:6379'
).split(',');

// Short timeouts: a node that is down must not eat up the validity of the lock.
const nodes = urls.map((url) => {
  const node = new Redis(url, {
    commandTimeout: 250,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
  });
  node.on('error', (err) => console.warn(`[quorum-lock] ${url}: ${err.message}`));
  return node;
});

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function releaseEverywhere(key: string, token: string): Promise<void> {
  // Also on nodes that reported an error: the SET may have arrived all the same.
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
}

/** Resolves to the moment until which the lock is valid, or null. */
async function tryAcquire(key: string, token: string, ttlMs: number): Promise<number | null> {
  const startedAt = performance.now();
  const replies = await Promise.allSettled(
    nodes.map((node) => node.set(key, token, 'PX', ttlMs, 'NX')),
  );

  const votes = replies.filter((reply) => reply.status === 'fulfilled');
  const granted = votes.filter((vote) => vote.value === 'OK').length;
  const quorum = Math.floor(votes.length / 2) + 1;

  // Time for the round trips is gone already, and clocks may drift a little.
  const drift = Math.ceil(ttlMs * 0.01) + 2;
  const validUntil = startedAt + ttlMs - drift;

  if (granted >= quorum && performance.now() < validUntil) return validUntil;
  await releaseEverywhere(key, token);
  return null;
}

/**
 * Runs `work` once a majority has granted the lock. The signal is aborted before
 * the lock can expire; `work` must stop at that point.
 */
export async function withQuorumLock<T>(
  resource: string,
  work: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 20_000, attempts = 10 }: { ttlMs?: number; attempts?: number } = {},
): Promise<T> {
  const key = `quorum-lock:${resource}`;

  for (let attempt = 1; attempt <= attempts; attempt++) {
    // A new token per attempt, leftovers of earlier attempts can never count for us.
    const token = randomUUID();
    const validUntil = await tryAcquire(key, token, ttlMs);
    if (validUntil === null) {
      // Random delay, so that competing clients do not stay in lockstep.
      await sleep(100 + Math.random() * 200);
      continue;
    }
    try {
      // Leave a tenth of the TTL for the work to wind down.
      const remaining = Math.floor(validUntil - ttlMs * 0.1 - performance.now());
      if (remaining <= 0) throw new Error(`Lock on ${resource} was granted too late`);
      const signal = AbortSignal.timeout(remaining);
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await releaseEverywhere(key, token);
    }
  }
  throw new Error(`Could not lock ${resource} after ${attempts} attempts`);
}
