import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Entry {
  token: string;
  depth: number;
}

/** May be entered again while it is held, e.g. move() calls cancel() and create(). */
export class ReservationLock {
  private readonly redis: Redis;
  private readonly ttlMs: number;
  private readonly entries = new Map<string, Entry>();

  constructor(redis: Redis, ttlMs = 15_000) {
    this.redis = redis;
    this.ttlMs = ttlMs;
  }

  async lock(unit: string): Promise<boolean> {
    const entry = this.entries.get(unit);
    if (entry) {
      entry.depth++;
      return true;
    }
    const token = randomUUID();
    const reply = await this.redis.set(`reservation:${unit}`, token, 'PX', this.ttlMs, 'NX');
    if (reply !== 'OK') return false;
    this.entries.set(unit, { token, depth: 1 });
    return true;
  }

  async unlock(unit: string): Promise<void> {
    const entry = this.entries.get(unit);
    if (!entry) return;
    entry.depth--;
    if (entry.depth > 0) return;
    this.entries.delete(unit);
    await this.redis.eval(UNLOCK, 1, `reservation:${unit}`, entry.token);
  }

  async run<T>(unit: string, fn: () => Promise<T>): Promise<T> {
    if (!(await this.lock(unit))) throw new Error(`unit ${unit} is locked`);
    try {
      return await fn();
    } finally {
      await this.unlock(unit);
    }
  }
}

export interface Calendar {
  add(unit: string, day: string, guest: string): Promise<void>;
  remove(unit: string, day: string): Promise<void>;
}

export class Reservations {
  private readonly lock: ReservationLock;
  private readonly calendar: Calendar;

  constructor(lock: ReservationLock, calendar: Calendar) {
    this.lock = lock;
    this.calendar = calendar;
  }

  create(unit: string, day: string, guest: string) {
    return this.lock.run(unit, () => this.calendar.add(unit, day, guest));
  }

  cancel(unit: string, day: string) {
    return this.lock.run(unit, () => this.calendar.remove(unit, day));
  }

  move(unit: string, from: string, to: string, guest: string) {
    return this.lock.run(unit, async () => {
      await this.cancel(unit, from);
      await this.create(unit, to, guest);
    });
  }
}
