import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class Lease {
  constructor(
    private readonly redis: Redis,
    readonly key: string,
    readonly token: string,
    private readonly expiresAt: number,
  ) {}

  /** Whether the lease may still be relied upon. */
  get valid(): boolean {
    return performance.now() < this.expiresAt;
  }

  get remainingMs(): number {
    return Math.max(0, this.expiresAt - performance.now());
  }

  async release(): Promise<void> {
    await this.redis.eval(RELEASE, 1, this.key, this.token);
  }
}

export class LeaseClient {
  constructor(
    private readonly redis: Redis,
    private readonly prefix = 'lease',
  ) {}

  async tryAcquire(resource: string, ttlMs: number): Promise<Lease | null> {
    const key = `${this.prefix}:${resource}`;
    const token = randomUUID();
    const reply = await this.redis.set(key, token, 'PX', ttlMs, 'NX');
    if (reply !== 'OK') return null;

    const safety = Math.ceil(ttlMs * 0.01) + 2;
    return new Lease(this.redis, key, token, performance.now() + ttlMs - safety);
  }
}
