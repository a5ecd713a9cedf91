import { createClient } from 'redis';
import { v4 as uuidv4 } from 'uuid';

type RedisClient = ReturnType<typeof createClient>;

export interface DistributedLockOptions {
  /** Time in ms after which Redis drops the lock by itself. Choose it for your work. */
  ttl: number;
  retryCount?: number;
  retryDelay?: number;
  namespace?: string;
}

export class LockNotAcquiredError extends Error {
  constructor(public readonly resource: string) {
    super(`Could not acquire lock on "${resource}"`);
    this.name = 'LockNotAcquiredError';
  }
}

const RELEASE_SCRIPT = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

/**
 * Usage:
 *
 *   const lock = new DistributedLock(client, 'tenant:42:migration', { ttl: 30_000 });
 *   await lock.acquire();
 *   for (const step of steps) {
 *     if (!(await lock.extend())) throw new Error('lost');
 *     await step();               // each step is well below the ttl
 *   }
 *   await lock.release();
 */
export class DistributedLock {
  private readonly key: string;
  private readonly retryCount: number;
  private readonly retryDelay: number;
  private token: string | null = null;
  private expiresAt = 0;

  constructor(
    private readonly client: RedisClient,
    private readonly resource: string,
    private readonly options: DistributedLockOptions,
  ) {
    if (!Number.isInteger(options.ttl) || options.ttl <= 0) {
      throw new RangeError('ttl must be a positive integer');
    }
    this.key = `${options.namespace ?? 'locks'}:${resource}`;
    this.retryCount = options.retryCount ?? 20;
    this.retryDelay = options.retryDelay ?? 250;
  }

  get held(): boolean {
    return this.token !== null && Date.now() < this.expiresAt;
  }

  async acquire(): Promise<void> {
    if (this.token) throw new Error(`lock on "${this.resource}" is in use; create one per caller`);
    const token = uuidv4();
    for (let attempt = 0; attempt <= this.retryCount; attempt++) {
      const sentAt = Date.now();
      const reply = await this.client.set(this.key, token, { NX: true, PX: this.options.ttl });
      if (reply === 'OK') {
        this.token = token;
        this.expiresAt = sentAt + this.options.ttl;
        return;
      }
      const jitter = Math.random() * this.retryDelay;
      await new Promise((resolve) => setTimeout(resolve, this.retryDelay / 2 + jitter));
    }
    throw new LockNotAcquiredError(this.resource);
  }

  /** Starts the ttl again. False if the lock is gone. */
  async extend(): Promise<boolean> {
    if (!this.token) return false;
    const sentAt = Date.now();
    const reply = await this.client.set(this.key, this.token, { XX: true, PX: this.options.ttl });
    if (reply !== 'OK') {
      this.token = null;
      this.expiresAt = 0;
      return false;
    }
    this.expiresAt = sentAt + this.options.ttl;
    return true;
  }

  async release(): Promise<boolean> {
    const { token } = this;
    if (!token) return false;
    this.token = null;
    this.expiresAt = 0;
    const removed = await this.client.eval(RELEASE_SCRIPT, { keys: [this.key], arguments: [token] });
    return removed === 1;
  }
}
