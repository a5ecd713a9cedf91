import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** Only its static method makes one; only `await using` ends it. */
export class Lease {
  readonly #end: () => Promise<unknown>;

  private constructor(end: () => Promise<unknown>) {
    this.#end = end;
  }

  static async take(redis: Redis, what: string, ms = 5_000): Promise<Lease> {
    const token = randomUUID();
    const reply = await redis.set(`lease:${what}`, token, 'PX', ms, 'NX');
    if (reply === null) throw new Error(`${what} is taken`);
    return new Lease(() => redis.eval(RELEASE, 1, `lease:${what}`, token));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
  }
}
