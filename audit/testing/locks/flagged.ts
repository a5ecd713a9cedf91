import { randomUUID } from 'node:crypto';
import { createClient, type RedisClientType } from 'redis';

export const redis: RedisClientType = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
await redis.connect();

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Draws one token for all its tries, says whether it has acquired and not released, and nobody listens for errors. */
export class Mutex {
  protected readonly key: string;
  private readonly ttlMs: number;
  private token: string | null = null;

  constructor(key: string, ttlMs: number) {
    this.key = key;
    this.ttlMs = ttlMs;
  }

  get locked(): boolean {
    return this.token !== null;
  }

  async acquire(): Promise<void> {
    const token = randomUUID();
    for (let i = 0; i < 50; i++) {
      if (await redis.set(this.key, token, { NX: true, PX: this.ttlMs })) {
        this.token = token;
        return;
      }
      await sleep(100);
    }
    throw new Error(`${this.key} is locked`);
  }

  async release(): Promise<void> {
    const { token } = this;
    this.token = null;
    if (token !== null) await this.free(token);
  }

  protected async free(token: string): Promise<void> {
    await redis.eval(UNLOCK, { keys: [this.key], arguments: [token] });
  }
}
