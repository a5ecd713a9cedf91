import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const TTL_MS = 8_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0
`;

// Only the current holder may change a count.
const SAVE = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("HSET", KEYS[2], ARGV[2], ARGV[3])
return 1
`;

export class SoldOutError extends Error {}
export class SeatLockTimeout extends Error {}

class SeatLock implements AsyncDisposable {
  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
  ) {}

  static async acquire(redis: Redis, key: string, waitMs = 3_000): Promise<SeatLock> {
    const token = randomUUID();
    const until = performance.now() + waitMs;
    while ((await redis.set(key, token, "PX", TTL_MS, "NX")) !== "OK") {
      if (performance.now() >= until) throw new SeatLockTimeout(key);
      await sleep(40 + Math.random() * 80);
    }
    return new SeatLock(redis, key, token);
  }

  async saveFree(eventId: string, section: string, free: number): Promise<void> {
    const ok = await this.redis.eval(SAVE, 2, this.key, freeKey(eventId), this.token, section, free);
    if (ok !== 1) throw new Error(`${this.key} expired before the count was saved`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch((err) => {
      console.warn(`release of ${this.key} failed`, err);
    });
  }
}

const freeKey = (eventId: string) => `event:${eventId}:free`;

export class SeatInventory {
  constructor(private readonly redis: Redis) {}

  async reserve(eventId: string, section: string, seats: number): Promise<number> {
    await using lock = await SeatLock.acquire(this.redis, `lock:event:${eventId}:${section}`);
    const free = Number((await this.redis.hget(freeKey(eventId), section)) ?? 0);
    if (free < seats) throw new SoldOutError(`${section}: ${free} left`);
    await lock.saveFree(eventId, section, free - seats);
    return free - seats;
  }

  async giveBack(eventId: string, section: string, seats: number): Promise<number> {
    await using lock = await SeatLock.acquire(this.redis, `lock:event:${eventId}`);
    const free = Number((await this.redis.hget(freeKey(eventId), section)) ?? 0);
    await lock.saveFree(eventId, section, free + seats);
    return free + seats;
  }
}
