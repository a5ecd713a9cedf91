import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export interface QuorumMutexOptions {
  ttlMs?: number;
  nodeTimeoutMs?: number;
  attempts?: number;
}

export class NotAcquired extends Error {}

/**
 * A lock over independent Redis masters (not replicas of each other), after the Redlock description.
 *
 * What it promises: while fewer than half of the nodes fail and clocks run at about the same speed, two `run`
 * calls for one name do not overlap, provided `work` stops when its signal fires. A node that restarts without its
 * data has to stay away for `ttlMs`. A paused process can still be late, so do not use this for work that is not
 * safe to repeat.
 */
export function createQuorumMutex(urls: string[], options: QuorumMutexOptions = {}) {
  const { ttlMs = 20_000, nodeTimeoutMs = 250, attempts = 10 } = options;
  if (new Set(urls).size !== urls.length || urls.length < 3) {
    throw new TypeError('at least three different nodes are needed');
  }
  const quorum = Math.floor(urls.length / 2) + 1;
  const nodes = urls.map((url) => {
    const node = new Redis(url, {
      commandTimeout: nodeTimeoutMs,
      connectTimeout: 2_000,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    });
    node.on('error', () => {}); // a node that is down is just a missing vote
    return node;
  });

  async function releaseEverywhere(key: string, token: string): Promise<void> {
    // also on nodes that seemed to refuse: the answer may be what got lost
    await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
  }

  async function acquire(key: string): Promise<{ token: string; validUntil: number }> {
    const drift = Math.ceil(ttlMs * 0.01) + 2;
    for (let attempt = 1; ; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      const votes = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', ttlMs, 'NX')));
      const won = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;
      const validUntil = startedAt + ttlMs - drift;

      if (won >= quorum && validUntil - performance.now() > ttlMs / 2) {
        return { token, validUntil };
      }
      await releaseEverywhere(key, token);
      if (attempt >= attempts) throw new NotAcquired(`no quorum for ${key} after ${attempt} attempts`);
      await sleep(50 + Math.random() * 200);
    }
  }

  return {
    async run<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
      const key = `mutex:${name}`;
      const { token, validUntil } = await acquire(key);
      // leave work a tenth of the ttl to wind up after the signal
      const budget = Math.max(0, Math.floor(validUntil - performance.now() - ttlMs * 0.1));
      const signal = AbortSignal.timeout(budget);
      try {
        const result = await work(signal);
        signal.throwIfAborted(); // the caller learns that the end may have been outside the lock
        return result;
      } finally {
        await releaseEverywhere(key, token);
      }
    },
    close(): void {
      for (const node of nodes) node.disconnect();
    },
  };
}
