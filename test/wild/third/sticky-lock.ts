import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

interface Entry {
  token: string;
  ttl: number;
}

/** Locks that survive a restart of Redis: what is held is put back when the connection is there again. */
export class StickyLocks {
  private readonly redis: Redis;
  private readonly held = new Map<string, Entry>();

  constructor(url: string = process.env.REDIS_URL ?? 'redis://localhost:6379') {
    this.redis = new Redis(url, { maxRetriesPerRequest: 3 });
    this.redis.on('error', (err) => console.warn('sticky locks:', err.message));
    this.redis.on('ready', () => {
      void this.restore();
    });
  }

  async acquire(name: string, ttl = 20_000): Promise<boolean> {
    if (this.held.has(name)) return false;
    const token = randomUUID();
    const reply = await this.redis.set(`sticky:${name}`, token, 'PX', ttl, 'NX');
    if (reply !== 'OK') return false;
    this.held.set(name, { token, ttl });
    return true;
  }

  async release(name: string): Promise<void> {
    const entry = this.held.get(name);
    if (!entry) return;
    this.held.delete(name);
    await this.redis.eval(RELEASE, 1, `sticky:${name}`, entry.token);
  }

  private async restore(): Promise<void> {
    for (const [name, { token, ttl }] of this.held) {
      await this.redis.set(`sticky:${name}`, token, 'PX', ttl);
    }
  }
}
