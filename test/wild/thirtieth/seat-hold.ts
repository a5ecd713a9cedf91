import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface Seat {
  showId: string;
  label: string;
  category: string;
  status: 'free' | 'held' | 'sold';
}

export interface SeatDb {
  findSeat(showId: string, label: string): Promise<Seat | null>;
  updateSeat(showId: string, label: string, patch: object, opts: { timeoutMs: number }): Promise<void>;
}

export interface Pricing {
  quote(showId: string, category: string, signal: AbortSignal): Promise<number>;
}

export class SeatUnavailable extends Error {}

const LOCK_MS = 30_000;
const HOLD_MINUTES = 12;

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

export class SeatHolds {
  constructor(
    private readonly redis: Redis,
    private readonly db: SeatDb,
    private readonly pricing: Pricing,
  ) {}

  async hold(showId: string, label: string, customerId: string): Promise<{ priceCents: number; heldUntil: Date }> {
    const seat = await this.db.findSeat(showId, label);
    if (!seat) throw new SeatUnavailable(`no seat ${label}`);
    if (seat.status !== 'free') throw new SeatUnavailable(`seat ${label} is ${seat.status}`);

    const key = `lock:seat:${showId}:${label}`;
    const token = await this.acquire(key, 5_000);
    try {
      const priceCents = await this.pricing.quote(showId, seat.category, AbortSignal.timeout(4_000));
      const heldUntil = new Date(Date.now() + HOLD_MINUTES * 60_000);
      await this.db.updateSeat(
        showId,
        label,
        { status: 'held', customerId, priceCents, heldUntil },
        { timeoutMs: 4_000 },
      );
      return { priceCents, heldUntil };
    } finally {
      await this.release(key, token);
    }
  }

  private async acquire(key: string, waitMs: number): Promise<string> {
    const giveUpAt = Date.now() + waitMs;
    for (let attempt = 0; ; attempt++) {
      const token = randomUUID();
      const sentAt = Date.now();
      let reply: 'OK' | null;
      try {
        reply = await this.redis.set(key, token, 'PX', LOCK_MS, 'NX');
      } catch (err) {
        await this.release(key, token);
        throw err;
      }
      if (reply === 'OK') {
        if (Date.now() - sentAt < LOCK_MS / 3) return token;
        await this.release(key, token); // reply came too late to be worth much
      }
      if (Date.now() > giveUpAt) throw new SeatUnavailable('seat is being booked by someone else');
      await sleep(Math.min(400, 30 * 2 ** attempt) * (0.5 + Math.random()));
    }
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, 1, key, token);
    } catch (err) {
      console.warn(`seat lock ${key} not released`, err);
    }
  }
}
