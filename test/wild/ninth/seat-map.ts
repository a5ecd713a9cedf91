import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

// One connection for the whole API process.
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
redis.on('error', (err) => console.error('seat map redis', err.message));

const HOLD_MS = 6_000;

export class SeatTaken extends Error {
  constructor(seat: string) {
    super(`seat ${seat} is being booked`);
  }
}

export interface Hold {
  key: string;
  token: string;
  /** on performance.now() */
  until: number;
}

export async function hold(show: string, seat: string): Promise<Hold> {
  const key = `hold:${encodeURIComponent(show)}:${encodeURIComponent(seat)}`;
  const token = randomUUID();
  const until = performance.now() + HOLD_MS - 200;
  const reply = await redis.set(key, token, 'PX', HOLD_MS, 'NX');
  if (reply !== 'OK') throw new SeatTaken(seat);
  return { key, token, until };
}

/** Optimistic delete: EXEC is refused when the key changed after we looked. */
export async function release(h: Hold): Promise<boolean> {
  try {
    await redis.watch(h.key);
    if ((await redis.get(h.key)) !== h.token) {
      await redis.unwatch();
      return false;
    }
    const result = await redis.multi().del(h.key).exec();
    if (result === null) return false; // somebody else's by now
    const [err, n] = result[0]!;
    if (err) throw err;
    return n === 1;
  } catch (err) {
    console.warn(`release of ${h.key} failed, it will expire`, err);
    return false;
  }
}

export interface Booking {
  show: string;
  seat: string;
  customer: string;
}

export interface Store {
  bookedBy(show: string, seat: string): Promise<string | null>;
  charge(customer: string, cents: number): Promise<string>;
  refund(payment: string): Promise<void>;
  book(b: Booking, payment: string): Promise<void>;
}

export async function bookSeat(store: Store, b: Booking, cents: number): Promise<'booked' | 'gone'> {
  const h = await hold(b.show, b.seat);
  try {
    if (await store.bookedBy(b.show, b.seat)) return 'gone';
    const payment = await store.charge(b.customer, cents);
    // the payment provider can be slow, never write with a hold that has run out
    if (performance.now() >= h.until) {
      await store.refund(payment);
      return 'gone';
    }
    await store.book(b, payment);
    return 'booked';
  } finally {
    await release(h);
  }
}
