import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export abstract class LockHost {
  protected lockToken = '';
  constructor(protected readonly redis: Redis) {}

  async enter(key: string, ttlMs: number, waitMs: number): Promise<void> {
    this.lockToken = randomUUID();
    const end = Date.now() + waitMs;
    while ((await this.redis.set(key, this.lockToken, 'PX', ttlMs, 'NX')) !== 'OK') {
      if (Date.now() > end) throw new Error(`${key} is locked`);
      await sleep(100);
    }
  }

  async leave(key: string): Promise<void> {
    await this.redis.eval(UNLOCK, 1, key, this.lockToken);
  }
}

interface LockedOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs?: number;
  waitMs?: number;
}

export function locked<A extends unknown[]>({ key, ttlMs = 60_000, waitMs = 5_000 }: LockedOptions<A>) {
  return function <This extends LockHost, R>(
    method: (this: This, ...args: A) => Promise<R>,
    _context: ClassMethodDecoratorContext<This, (this: This, ...args: A) => Promise<R>>,
  ) {
    return async function (this: This, ...args: A): Promise<R> {
      const name = `lock:${key(...args)}`;
      await this.enter(name, ttlMs, waitMs);
      try {
        return await method.apply(this, args);
      } finally {
        await this.leave(name);
      }
    };
  };
}

interface Match {
  id: string;
  players: string[];
}

export class Lobby extends LockHost {
  @locked({ key: (region: string, _player: string) => `lobby:${region}` })
  async join(region: string, player: string): Promise<Match | null> {
    const waiting = `lobby:${region}:waiting`;
    await this.redis.rpush(waiting, player);
    if ((await this.redis.llen(waiting)) < 4) return null;
    const players = (await this.redis.lpop(waiting, 4)) ?? [];
    const match = { id: randomUUID(), players };
    await this.redis.set(`match:${match.id}`, JSON.stringify(match), 'EX', 3600);
    return match;
  }

  @locked({ key: (region: string, _player: string) => `lobby:${region}` })
  async quit(region: string, player: string): Promise<boolean> {
    return (await this.redis.lrem(`lobby:${region}:waiting`, 1, player)) > 0;
  }
}
