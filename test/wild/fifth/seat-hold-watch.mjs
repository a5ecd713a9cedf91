import { createClientPool, WatchError } from 'redis';
import { randomUUID } from 'node:crypto';

// EVAL is disabled on our managed redis, so release and prolong go through WATCH/MULTI.
// pool.execute() gives us a connection to ourselves for the whole transaction.

const pool = createClientPool(
  { url: process.env.REDIS_URL ?? 'redis://localhost:6379' },
  { minimum: 2, maximum: 20 },
);
pool.on('error', (err) => console.error('seat holds:', err.message));
await pool.connect();

const HOLD_MS = 8 * 60_000;
const BUFFER_MS = 20_000;

const seatKey = (show, seat) => `hold:${show}:${seat}`;

/** Queues `change` only if the key still carries our token; false if it doesn't. */
async function ifMine(key, token, change) {
  return pool.execute(async (client) => {
    await client.watch(key);
    if ((await client.get(key)) !== token) {
      await client.unwatch();
      return false;
    }
    try {
      await change(client.multi()).exec();
      return true;
    } catch (err) {
      if (err instanceof WatchError) return false;
      throw err;
    }
  });
}

export class SeatHold {
  #key;
  #token;
  #endsAt;

  constructor(key, token, endsAt) {
    this.#key = key;
    this.#token = token;
    this.#endsAt = endsAt;
  }

  static async take(show, seat) {
    const key = seatKey(show, seat);
    const token = randomUUID();
    const asked = performance.now();
    const hold = new SeatHold(key, token, asked + HOLD_MS - BUFFER_MS);
    try {
      const reply = await pool.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: HOLD_MS } });
      return reply === 'OK' ? hold : null;
    } catch (err) {
      await hold.drop();
      throw err;
    }
  }

  get msLeft() {
    return Math.max(0, this.#endsAt - performance.now());
  }

  /** The customer asked for more time. */
  async prolong() {
    const asked = performance.now();
    const ok = await ifMine(this.#key, this.#token, (multi) => multi.pExpire(this.#key, HOLD_MS));
    this.#endsAt = ok ? asked + HOLD_MS - BUFFER_MS : 0;
    return ok;
  }

  async drop() {
    this.#endsAt = 0;
    try {
      await ifMine(this.#key, this.#token, (multi) => multi.del(this.#key));
    } catch (err) {
      console.warn(`seat ${this.#key} stays on hold until it expires:`, err.message);
    }
  }
}

const SELL_MS = 5_000;

/** @param box box office; sell() is cancelled on the server after timeoutMs */
export async function sellSeat(box, show, seat, customer, pay) {
  const hold = await SeatHold.take(show, seat);
  if (!hold) return { sold: false, reason: 'taken' };
  try {
    if (await box.isSold(show, seat)) return { sold: false, reason: 'sold' };
    const payment = await pay(AbortSignal.timeout(Math.floor(hold.msLeft)));
    if (hold.msLeft < SELL_MS) {
      await payment.cancel();
      return { sold: false, reason: 'hold ran out' };
    }
    await box.sell(show, seat, customer, payment.id, { timeoutMs: SELL_MS });
    return { sold: true };
  } finally {
    await hold.drop();
  }
}
