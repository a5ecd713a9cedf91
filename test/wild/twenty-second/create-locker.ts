import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

export interface LockerOptions {
  ttlMs?: number;
  /** How long one node may take to answer. */
  nodeTimeoutMs?: number;
  prefix?: string;
}

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/** Independent primaries, e.g. LOCK_NODES="redis://a:6379,redis://b:6379,redis://c:6379" */
export function nodesFromEnv(): Redis[] {
  return (process.env.LOCK_NODES ?? '')
    .split(',')
    .filter(Boolean)
    .map((url) => new Redis(url.trim(), { maxRetriesPerRequest: 1 }));
}

function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * A lock that survives the failure of single Redis nodes: it is held once the
 * majority has granted it.
 */
export function createLocker(nodes: Redis[] = nodesFromEnv(), options: LockerOptions = {}) {
  const { ttlMs = 10_000, nodeTimeoutMs = 250, prefix = 'lock' } = options;
  if (nodes.length < 3) throw new RangeError('at least three nodes, please');
  const driftMs = Math.ceil(ttlMs * 0.02) + 2;

  async function release(key: string, token: string): Promise<void> {
    await Promise.allSettled(
      nodes.map((node) => within(nodeTimeoutMs, node.eval(RELEASE, 1, key, token))),
    );
  }

  async function acquire(key: string, token: string): Promise<number | null> {
    const startedAt = performance.now();
    const results = await Promise.allSettled(
      nodes.map((node) => within(nodeTimeoutMs, node.set(key, token, 'PX', ttlMs, 'NX'))),
    );

    // Nodes that are down or hang must not keep everybody from working.
    const answers = results.filter((r) => r.status === 'fulfilled').map((r) => r.value);
    const granted = answers.filter((answer) => answer === 'OK').length;
    const majority = Math.floor(answers.length / 2) + 1;

    const validUntil = startedAt + ttlMs - driftMs;
    if (granted >= majority && performance.now() < validUntil) return validUntil;

    await release(key, token);
    return null;
  }

  return {
    /**
     * Runs `fn` if the lock is free, else resolves to undefined right away.
     * The signal fires when the lock nears its end; `fn` has to stop then.
     */
    async tryRun<T>(resource: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
      const key = `${prefix}:${resource}`;
      const token = randomUUID();
      const validUntil = await acquire(key, token);
      if (validUntil === null) return undefined;
      try {
        const usable = validUntil - ttlMs * 0.15 - performance.now();
        const signal = AbortSignal.timeout(Math.max(0, Math.floor(usable)));
        return await fn(signal);
      } finally {
        await release(key, token);
      }
    },
  };
}
