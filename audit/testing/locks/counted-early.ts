import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** Counts its time from before its SET, and on the whole of it. */
class Seat {
  private readonly ends: number;
  private readonly free: () => Promise<unknown>;

  constructor(askedAt: number, ttlMs: number, free: () => Promise<unknown>) {
    this.ends = askedAt + ttlMs;
    this.free = free;
  }

  get valid(): boolean {
    return performance.now() < this.ends;
  }

  async release(): Promise<void> {
    await this.free();
  }
}

export async function tryAcquire(redis: Redis, seat: string, ttlMs: number): Promise<Seat | null> {
  const askedAt = performance.now();
  const token = randomUUID();
  if ((await redis.set(seat, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  return new Seat(askedAt, ttlMs, () => redis.eval(FREE, 1, seat, token));
}
