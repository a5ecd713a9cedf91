import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/** seconds */
const LOCK_TTL = Number(process.env.SEAT_LOCK_TTL ?? 30);
/** seconds that have to be left for writing */
const LOCK_RESERVE = 5;

const RELEASE_LUA = `
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end
`;

export interface SeatRepository {
  status(showId: string, seats: string[]): Promise<Record<string, 'free' | 'held' | 'sold'>>;
  /** a single statement, with a statement time-out of two seconds */
  hold(showId: string, seats: string[], customerId: string): Promise<void>;
}

class ShowLock {
  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    private readonly expiresAt: number,
  ) {}

  static async take(redis: Redis, showId: string): Promise<ShowLock | undefined> {
    const key = `show:${showId}:seat-lock`;
    const token = randomUUID();
    const now = performance.now();
    const reply = await redis.set(key, token, 'PX', LOCK_TTL, 'NX');
    if (reply !== 'OK') return undefined;
    return new ShowLock(redis, key, token, now + LOCK_TTL * 1000);
  }

  get secondsLeft(): number {
    return (this.expiresAt - performance.now()) / 1000;
  }

  async free(): Promise<void> {
    await this.redis.eval(RELEASE_LUA, 1, this.key, this.token);
  }
}

export class SeatHolds {
  constructor(private readonly redis: Redis, private readonly seats: SeatRepository) {}

  async hold(showId: string, wanted: string[], customerId: string): Promise<boolean> {
    const lock = await this.waitForLock(showId);
    try {
      const status = await this.seats.status(showId, wanted);
      if (wanted.some((s) => status[s] !== 'free')) return false;

      if (lock.secondsLeft < LOCK_RESERVE) throw new Error('lock expires too soon to write');
      await this.seats.hold(showId, wanted, customerId);
      return true;
    } finally {
      await lock.free().catch((e) => console.warn('seat lock not freed', e));
    }
  }

  private async waitForLock(showId: string): Promise<ShowLock> {
    for (let i = 0; i < 30; i++) {
      const lock = await ShowLock.take(this.redis, showId);
      if (lock) return lock;
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 100));
    }
    throw new Error(`show ${showId} is busy`);
  }
}
