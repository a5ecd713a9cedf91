import { randomBytes } from 'node:crypto';
import type { Redis } from 'iovalkey';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export class LeaseExpiredError extends Error {
  constructor(resource: string) {
    super(`lease on ${resource} has run out`);
    this.name = 'LeaseExpiredError';
  }
}

export class Lease implements AsyncDisposable {
  readonly resource: string;
  private readonly redis: Redis;
  private readonly key: string;
  private readonly token: string;
  private readonly goodUntil: number;
  private done = false;

  constructor(redis: Redis, resource: string, key: string, token: string, goodUntil: number) {
    this.redis = redis;
    this.resource = resource;
    this.key = key;
    this.token = token;
    this.goodUntil = goodUntil;
  }

  get remainingMs(): number {
    return this.done ? 0 : Math.max(0, this.goodUntil - performance.now());
  }

  /** Call before every side effect. */
  assertHeld(): void {
    if (this.remainingMs === 0) throw new LeaseExpiredError(this.resource);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.done) return;
    this.done = true;
    try {
      await this.redis.eval(RELEASE, 1, this.key, this.token);
    } catch (err) {
      console.warn('lease release failed, it will expire by itself', this.resource, err);
    }
  }
}

export async function takeLease(redis: Redis, resource: string, ttlMs: number): Promise<Lease | null> {
  if (!Number.isInteger(ttlMs) || ttlMs < 100) throw new RangeError('ttlMs must be an integer >= 100');
  const key = `lease:{${resource}}`;
  const token = randomBytes(20).toString('base64url');
  const askedAt = performance.now();
  const answer = await redis.set(key, token, 'PX', ttlMs, 'NX');
  if (answer !== 'OK') return null;

  const margin = Math.ceil(ttlMs * 0.02) + 5;
  const lease = new Lease(redis, resource, key, token, askedAt + ttlMs - margin);
  if (lease.remainingMs === 0) {
    await lease[Symbol.asyncDispose]();
    return null;
  }
  return lease;
}

export async function settleAccount(
  redis: Redis,
  accountId: string,
  steps: Array<() => Promise<void>>,
): Promise<'settled' | 'busy'> {
  await using lease = await takeLease(redis, `account:${accountId}`, 15_000);
  if (!lease) return 'busy';
  for (const step of steps) {
    lease.assertHeld();
    await step();
  }
  return 'settled';
}
