import { randomUUID } from 'node:crypto';
import { createClient, type RedisClientType } from 'redis5';

export interface SessionLockOptions {
  url?: string;
  ttlMs?: number;
}

export class SessionLock {
  private client: RedisClientType | undefined;
  private readonly tokens = new Map<string, string>();
  private readonly url: string;
  private readonly ttlMs: number;

  constructor({ url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', ttlMs = 5_000 }: SessionLockOptions = {}) {
    this.url = url;
    this.ttlMs = ttlMs;
  }

  private async redis(): Promise<RedisClientType> {
    if (!this.client) {
      this.client = createClient({ url: this.url });
      this.client.on('error', () => {});
      await this.client.connect();
    }
    return this.client;
  }

  async lock(sessionId: string): Promise<boolean> {
    const redis = await this.redis();
    const token = randomUUID();
    const ok = await redis.set(`session:${sessionId}:lock`, token, { NX: true, PX: this.ttlMs });
    if (ok !== 'OK') return false;
    this.tokens.set(sessionId, token);
    return true;
  }

  /** Only removes the lock if it is still ours. */
  async unlock(sessionId: string): Promise<boolean> {
    const token = this.tokens.get(sessionId);
    if (!token) return false;
    this.tokens.delete(sessionId);
    const redis = await this.redis();
    const current = await redis.get(`session:${sessionId}:lock`);
    if (current !== token) return false;
    await redis.del(`session:${sessionId}:lock`);
    return true;
  }
}
