import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

/**
 * Limits the number of concurrent calls to a partner's API, over all our pods.
 *
 * Slots are members of a sorted set, scored with the time they expire at. The
 * check and the insert are made in an optimistic transaction: when someone else
 * has touched the set in between, EXEC gives null and we start over.
 */
export class ApiSlots {
  private static readonly redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');

  constructor(
    private readonly api: string,
    private readonly max: number,
    private readonly slotMs = 60_000,
  ) {}

  private get key(): string {
    return `slots:${this.api}`;
  }

  private async tryTake(id: string): Promise<boolean> {
    const redis = ApiSlots.redis;

    for (;;) {
      await redis.watch(this.key);
      const now = Date.now();
      const used = await redis.zcount(this.key, `(${now}`, '+inf');

      if (used >= this.max) {
        await redis.unwatch();
        return false;
      }

      const result = await redis
        .multi()
        .zremrangebyscore(this.key, '-inf', now)
        .zadd(this.key, now + this.slotMs, id)
        .pexpire(this.key, this.slotMs * 2)
        .exec();

      if (result !== null) return true;
    }
  }

  async take(timeoutMs = 30_000): Promise<string> {
    const id = randomUUID();
    const end = Date.now() + timeoutMs;
    while (!(await this.tryTake(id))) {
      if (Date.now() >= end) {
        throw new Error(`${this.api}: all ${this.max} slots are in use`);
      }
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 200));
    }
    return id;
  }

  async give(id: string): Promise<void> {
    await ApiSlots.redis.zrem(this.key, id);
  }

  /** Runs one API call in a slot. The call is aborted before the slot expires. */
  async call<T>(request: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = await this.take();
    try {
      return await request(AbortSignal.timeout(Math.floor(this.slotMs * 0.8)));
    } finally {
      await this.give(id).catch((err) => console.error(`${this.api}: slot not given back`, err));
    }
  }
}
