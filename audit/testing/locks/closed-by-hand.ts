import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** Its close() ends its connection, and says nothing. */
export class RoomMutex {
  private readonly redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

  async lock(room: string, ttlMs: number): Promise<{ room: string; token: string } | null> {
    const token = randomUUID();
    return (await this.redis.set(room, token, 'PX', ttlMs, 'NX')) === 'OK' ? { room, token } : null;
  }

  async unlock(held: { room: string; token: string }): Promise<void> {
    await this.redis.eval(FREE, 1, held.room, held.token);
  }

  close(): void {
    this.redis.disconnect();
  }
}
