import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

export type Show = {
  id: string;
  version: number;
  freeSeats: string[];
  taken: Record<string, string>; // seat -> customer
};

export interface ShowRepository {
  load(id: string): Promise<Show>;
  /**
   * UPDATE shows SET ..., version = version + 1 WHERE id = $1 AND version = $2
   * Resolves to false when no row matched.
   */
  saveIfVersion(show: Show, version: number): Promise<boolean>;
}

export class ShowBusy extends Error {}
export class ShowChanged extends Error {}
export class SoldOut extends Error {}

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

/**
 * Hands out seats. At a presale start thousands of requests hit the same row, and
 * with the version check alone most of them would load the show for nothing. The
 * Redis lock lets one through at a time. It is a queue-shortener: whether a seat
 * is sold is decided by saveIfVersion and by nothing else.
 */
export class SeatAllocator {
  static readonly LOCK_MS = 5_000;

  readonly #redis: RedisClientType;
  readonly #shows: ShowRepository;

  constructor(redis: RedisClientType, shows: ShowRepository) {
    this.#redis = redis;
    this.#shows = shows;
  }

  async allocate(showId: string, count: number, customerId: string): Promise<string[]> {
    const key = `seat-allocator:${showId}`;
    const token = randomUUID();

    const reply = await this.#redis.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: SeatAllocator.LOCK_MS },
    });
    if (reply !== 'OK') throw new ShowBusy(showId);

    try {
      const show = await this.#shows.load(showId);
      if (show.freeSeats.length < count) throw new SoldOut(showId);

      const seats = show.freeSeats.slice(0, count);
      const next: Show = {
        ...show,
        freeSeats: show.freeSeats.slice(count),
        taken: { ...show.taken, ...Object.fromEntries(seats.map((seat) => [seat, customerId])) },
      };

      const saved = await this.#shows.saveIfVersion(next, show.version);
      if (!saved) throw new ShowChanged(showId);
      return seats;
    } finally {
      await this.#redis
        .eval(UNLOCK, { keys: [key], arguments: [token] })
        .catch(() => undefined); // expires anyway
    }
  }
}
