import type Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LootLocker {
  // chest -> token of the hold this server has
  private readonly mine = new Map<string, string>();

  constructor(private readonly redis: Redis, private readonly ttl = 6_000) {}

  async acquire(chest: string): Promise<boolean> {
    if (this.mine.has(chest)) return false; // spare the round trip
    const token = randomUUID();
    const ok = (await this.redis.set(`chest:${chest}`, token, 'PX', this.ttl, 'NX')) === 'OK';
    if (ok) this.mine.set(chest, token);
    return ok;
  }

  async release(chest: string): Promise<void> {
    const token = this.mine.get(chest);
    if (!token) return;
    this.mine.delete(chest);
    await this.redis.eval(RELEASE, 1, `chest:${chest}`, token);
  }

  async open(chest: string, player: string, world: World): Promise<string[]> {
    const t0 = performance.now();
    try {
      if (!(await this.acquire(chest))) return [];
      const items = await world.contents(chest);
      if (performance.now() - t0 > this.ttl - 2_000) return [];
      await world.give(chest, player, items, { timeoutMs: 1_000 });
      return items;
    } finally {
      await this.release(chest);
    }
  }
}

export interface World {
  contents(chest: string): Promise<string[]>;
  give(chest: string, player: string, items: string[], o: { timeoutMs: number }): Promise<void>;
}
