import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** Counts its time from the answer: its key has been on the node for longer. */
class Seat {
  private readonly ends: number;
  private readonly free: () => Promise<unknown>;

  constructor(ttlMs: number, free: () => Promise<unknown>) {
    this.ends = performance.now() + ttlMs - 20;
    this.free = free;
  }

  get timeLeft(): number {
    return Math.max(0, this.ends - performance.now());
  }

  async release(): Promise<void> {
    await this.free();
  }
}

export async function tryAcquire(redis: Redis, seat: string, ttlMs: number): Promise<Seat | null> {
  const token = randomUUID();
  if ((await redis.set(seat, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  return new Seat(ttlMs, () => redis.eval(FREE, 1, seat, token));
}
