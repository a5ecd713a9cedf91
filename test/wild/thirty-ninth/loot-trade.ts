import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));

const ENTER = `
local holder = redis.call('GET', KEYS[1])
if not holder or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** Reentrant, so that buy() can call helpers which lock the same player. */
export class PlayerLock {
  private readonly owner = `${hostname()}:${process.pid}`;
  private readonly depth = new Map<string, number>();

  async run<T>(playerId: string, fn: () => Promise<T>): Promise<T> {
    const key = `lock:player:${playerId}`;
    await this.enter(key);
    try {
      return await fn();
    } finally {
      await this.leave(key);
    }
  }

  private async enter(key: string): Promise<void> {
    for (let i = 0; i < 50; i++) {
      const ok = await redis.eval(ENTER, { keys: [key], arguments: [this.owner, '10000'] });
      if (Number(ok) === 1) {
        this.depth.set(key, (this.depth.get(key) ?? 0) + 1);
        return;
      }
      await sleep(40 + Math.random() * 40);
    }
    throw new Error(`${key} is busy`);
  }

  private async leave(key: string): Promise<void> {
    const depth = (this.depth.get(key) ?? 1) - 1;
    if (depth > 0) {
      this.depth.set(key, depth);
      return;
    }
    this.depth.delete(key);
    await redis.eval(LEAVE, { keys: [key], arguments: [this.owner] });
  }
}

const locks = new PlayerLock();

export async function freeSlots(playerId: string): Promise<number> {
  return locks.run(playerId, async () => {
    const [bag, worn] = await Promise.all([
      redis.lLen(`bag:${playerId}`),
      redis.hLen(`worn:${playerId}`),
    ]);
    return 60 - bag - worn;
  });
}

export async function buy(playerId: string, itemId: string, price: number): Promise<number> {
  return locks.run(playerId, async () => {
    const gold = Number((await redis.get(`gold:${playerId}`)) ?? 0);
    if (gold < price) throw new Error('not enough gold');
    if ((await freeSlots(playerId)) < 1) throw new Error('bag is full');
    await redis
      .multi()
      .rPush(`bag:${playerId}`, itemId)
      .set(`gold:${playerId}`, String(gold - price))
      .exec();
    return gold - price;
  });
}

export async function start(): Promise<void> {
  await redis.connect();
}
