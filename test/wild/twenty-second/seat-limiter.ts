import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

interface SeatState {
  capacity: number;
  holders: string[];
}

const LOCK_TTL_MS = 5_000;
const WAIT_MS = 3_000;

// Stores the new state only while the lock is still ours, in one atomic step.
const COMMIT = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call("SET", KEYS[2], ARGV[2])
return 1
`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Hands out the seats of an event without ever overbooking it.
 *
 * Every change is a read-modify-write under a lock, and the write itself checks
 * the lock inside Redis. However slow this process is, a holder that has lost
 * the lock cannot write any more.
 */
export class SeatLimiter {
  readonly #client: RedisClientType;

  constructor(client: RedisClientType) {
    this.#client = client;
  }

  /** Returns false when the event is full. Safe to repeat for the same user. */
  async reserve(eventId: string, userId: string): Promise<boolean> {
    return this.#update(eventId, (state) => {
      if (state.holders.includes(userId)) return { result: true };
      if (state.holders.length >= state.capacity) return { result: false };
      return { result: true, next: { ...state, holders: [...state.holders, userId] } };
    });
  }

  async cancel(eventId: string, userId: string): Promise<boolean> {
    return this.#update(eventId, (state) => {
      if (!state.holders.includes(userId)) return { result: false };
      return { result: true, next: { ...state, holders: state.holders.filter((id) => id !== userId) } };
    });
  }

  async #update(
    eventId: string,
    change: (state: SeatState) => { result: boolean; next?: SeatState },
  ): Promise<boolean> {
    const lockKey = `lock:{event:${eventId}}`;
    const stateKey = `seats:{event:${eventId}}`;
    const token = randomUUID();
    await this.#acquire(lockKey, token);
    try {
      const raw = await this.#client.get(stateKey);
      if (raw === null) throw new Error(`Unknown event ${eventId}`);
      const { result, next } = change(JSON.parse(raw) as SeatState);
      if (next) {
        const committed = await this.#client.eval(COMMIT, {
          keys: [lockKey, stateKey],
          arguments: [token, JSON.stringify(next)],
        });
        if (committed !== 1) throw new Error('The seat lock expired, nothing was saved. Please retry.');
      }
      return result;
    } finally {
      await this.#client
        .eval(RELEASE, { keys: [lockKey], arguments: [token] })
        .catch((err) => console.warn(`Could not release ${lockKey}, it will expire`, err));
    }
  }

  async #acquire(lockKey: string, token: string): Promise<void> {
    const giveUpAt = performance.now() + WAIT_MS;
    for (;;) {
      const reply = await this.#client.set(lockKey, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: LOCK_TTL_MS },
      });
      if (reply === 'OK') return;
      if (performance.now() >= giveUpAt) throw new Error('The event is busy, please retry');
      await sleep(30 + Math.random() * 70);
    }
  }
}
