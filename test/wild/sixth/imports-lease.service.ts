import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

export interface Lease {
  /** Aborted as soon as the lease is gone, or may be. */
  signal: AbortSignal;
  /** Throws when the lease is gone. Use it right before a write. */
  ensure(): void;
}

/** Provided in ImportsModule; REDIS_CLIENT is the shared ioredis connection. */
export class ImportsLeaseService {
  private readonly ttl = 20_000;

  constructor(private readonly redis: Redis) {}

  /**
   * Runs the import while the lease is kept alive in the background.
   * Returns undefined when another pod imports the same file.
   */
  async run<T>(fileId: string, work: (lease: Lease) => Promise<T>): Promise<T | undefined> {
    const key = `imports:lease:${fileId}`;
    const token = randomUUID();
    const controller = new AbortController();

    let deadline = performance.now() + this.ttl;
    const taken = await this.redis.set(key, token, 'PX', this.ttl, 'NX');
    if (taken !== 'OK') return undefined;

    let finished = false;
    const lose = (why: string) => controller.abort(new LeaseLostError(`${fileId}: ${why}`));

    let expiry = setTimeout(lose, deadline - performance.now(), 'expired');
    const renew = async () => {
      const askedAt = performance.now();
      try {
        const ok = await this.redis.eval(RENEW, 1, key, token, this.ttl);
        if (finished || controller.signal.aborted) return;
        if (ok !== 1) return lose('taken over');
        deadline = askedAt + this.ttl;
        clearTimeout(expiry);
        expiry = setTimeout(lose, deadline - performance.now(), 'expired');
      } catch {
        // Redis is away for the moment: the next round may do, else the expiry timer fires.
      }
    };
    const heartbeat = setInterval(() => void renew(), this.ttl / 4);

    const lease: Lease = {
      signal: controller.signal,
      ensure() {
        if (performance.now() >= deadline) lose('expired');
        controller.signal.throwIfAborted();
      },
    };

    try {
      lease.ensure();
      const result = await work(lease);
      lease.ensure();
      return result;
    } finally {
      finished = true;
      clearInterval(heartbeat);
      clearTimeout(expiry);
      await this.redis.eval(RELEASE, 1, key, token).catch(() => undefined);
    }
  }
}
