import { randomUUID } from 'node:crypto';
import type Redis from 'ioredis';

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

export class LeaseLostError extends Error {
  constructor(key: string, cause?: unknown) {
    super(`Lease on ${key} was lost`, { cause });
    this.name = 'LeaseLostError';
  }
}

/**
 * A lease that renews itself until it is released. If a renewal fails, `signal` is aborted and the
 * holder must stop.
 */
export class Lease {
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout | undefined;
  private released = false;

  private constructor(
    private readonly redis: Redis,
    readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
  ) {}

  static async take(redis: Redis, name: string, ttlMs = 10_000): Promise<Lease | null> {
    const key = `lease:${name}`;
    const token = randomUUID();
    const ok = await redis.set(key, token, 'PX', ttlMs, 'NX');
    if (ok !== 'OK') return null;
    const lease = new Lease(redis, key, token, ttlMs);
    lease.scheduleRenewal();
    return lease;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  private scheduleRenewal(): void {
    this.timer = setTimeout(() => void this.renew(), this.ttlMs / 3);
  }

  private async renew(): Promise<void> {
    if (this.released) return;
    try {
      // PEXPIRE answers 0 when the key is gone, i.e. when we came too late
      const extended = await this.redis.pexpire(this.key, this.ttlMs);
      if (this.released) return;
      if (extended !== 1) {
        this.controller.abort(new LeaseLostError(this.key));
        return;
      }
      this.scheduleRenewal();
    } catch (err) {
      if (!this.released) this.controller.abort(new LeaseLostError(this.key, err));
    }
  }

  async release(): Promise<void> {
    if (this.released) return;
    this.released = true;
    clearTimeout(this.timer);
    try {
      await this.redis.eval(RELEASE, 1, this.key, this.token);
    } catch {
      // runs out on its own
    }
  }
}

export async function withLease<T>(
  redis: Redis,
  name: string,
  job: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const lease = await Lease.take(redis, name);
  if (!lease) return undefined;
  try {
    const result = await job(lease.signal);
    lease.signal.throwIfAborted();
    return result;
  } finally {
    await lease.release();
  }
}
