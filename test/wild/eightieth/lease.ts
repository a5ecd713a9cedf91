import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface LeaseOptions {
  ttlMs: number;
  renewEveryMs?: number;
  onLost?: (key: string) => void;
}

export interface Lease extends AsyncDisposable {
  readonly key: string;
  readonly signal: AbortSignal;
  release(): Promise<boolean>;
}

export function leaseFactory(redis: Redis, defaults: LeaseOptions) {
  return async function tryLease(key: string, overrides: Partial<LeaseOptions> = {}): Promise<Lease | null> {
    const { ttlMs, renewEveryMs = Math.floor(ttlMs / 3), onLost } = { ...defaults, ...overrides };
    const token = randomUUID();

    const acquired = await redis.set(key, token, 'PX', ttlMs, 'NX');
    if (acquired !== 'OK') return null;

    const controller = new AbortController();
    let lastRenewal = performance.now();

    const lost = () => {
      clearInterval(timer);
      if (controller.signal.aborted) return;
      controller.abort(new Error(`lease ${key} lost`));
      onLost?.(key);
    };

    const timer = setInterval(async () => {
      const startedAt = performance.now();
      try {
        const renewed = await redis.set(key, token, 'PX', ttlMs, 'XX');
        if (renewed === 'OK') lastRenewal = startedAt;
        else lost();
      } catch {
        if (performance.now() - lastRenewal > ttlMs) lost();
      }
    }, renewEveryMs);
    timer.unref();

    const release = async () => {
      clearInterval(timer);
      const removed = await redis.eval(RELEASE, 1, key, token);
      return removed === 1;
    };

    return {
      key,
      signal: controller.signal,
      release,
      async [Symbol.asyncDispose]() {
        await release();
      },
    };
  };
}

export async function withLease<T>(
  tryLease: ReturnType<typeof leaseFactory>,
  key: string,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const lease = await tryLease(key);
  if (!lease) return undefined;
  try {
    return await fn(lease.signal);
  } finally {
    await lease.release();
  }
}
