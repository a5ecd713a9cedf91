import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const releaseScript = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export type EdgeLease = {
  key: string;
  token: string;
  /** aborted once the lease may be over */
  signal: AbortSignal;
  /** the same, to compare with performance.now() */
  validUntil: number;
};

/**
 * Try to take the lease. Returns null when somebody else has it.
 */
export async function acquire(key: string, ttlMs: number): Promise<EdgeLease | null> {
  const token = crypto.randomUUID();
  // both start before the request, so they are over before Redis lets go of the key
  const signal = AbortSignal.timeout(ttlMs);
  const validUntil = performance.now() + ttlMs;
  const res = await redis.set(key, token, { nx: true, px: ttlMs });
  if (res !== 'OK' || performance.now() >= validUntil) return null;
  return { key, token, signal, validUntil };
}

export async function release(lease: EdgeLease): Promise<boolean> {
  const n = await redis.eval<string[], number>(releaseScript, [lease.key], [lease.token]);
  return n === 1;
}

/**
 * Revalidates a page; only one edge function at a time talks to the origin.
 * Every fetch is given the signal of the lease, and none is begun after `validUntil`.
 */
export async function revalidate(
  path: string,
  rebuild: (path: string, lease: EdgeLease) => Promise<void>,
): Promise<'done' | 'busy'> {
  const lease = await acquire(`revalidate:${path}`, 15_000);
  if (!lease) return 'busy';
  try {
    await rebuild(path, lease);
    return 'done';
  } finally {
    await release(lease).catch(() => {
      /* it expires on its own */
    });
  }
}
