import { setTimeout as sleep } from 'node:timers/promises';
import { createPool, type Pool as ConnPool } from 'generic-pool';
import { Redis } from 'ioredis';

/** A player's place in the hall. */
export interface Seat {
  table: number;
  side: 'north' | 'south';
}

export class HallFullError extends Error {}

const MAX_ATTEMPTS = 5;

/** Connections for optimistic transactions; each is lent to one caller at a time. */
export function watchConnections(url: string): ConnPool<Redis> {
  return createPool<Redis>(
    {
      create: async () => {
        const conn = new Redis(url, {
          lazyConnect: true,
          autoResendUnfulfilledCommands: false,
          retryStrategy: () => null,
        });
        conn.on('error', () => undefined);
        await conn.connect();
        return conn;
      },
      destroy: async (conn) => {
        conn.disconnect();
      },
      validate: async (conn) => conn.status === 'ready',
    },
    { testOnBorrow: true, min: 1, max: 16, acquireTimeoutMillis: 3_000 },
  );
}

function parse(field: string): Seat {
  const [table, side] = field.split(':');
  return { table: Number(table), side: side as Seat['side'] };
}

/** Order in which the seats of a hall are filled. */
function* seatsOf(tables: number): Generator<string> {
  for (let table = 1; table <= tables; table++) {
    yield `${table}:north`;
    yield `${table}:south`;
  }
}

/** Seats the players of a tournament round as they check in at any of the desks. */
export class CheckIn {
  constructor(
    private readonly conns: ConnPool<Redis>,
    private readonly tables: number,
  ) {}

  /**
   * Gives the player the first free seat, or the one he already has.
   * @throws HallFullError when no seat is left
   */
  async seat(roundId: string, playerId: string): Promise<Seat> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.conns.use((conn) => this.attempt(conn, roundId, playerId));
      } catch (err) {
        if (err instanceof HallFullError || attempt >= MAX_ATTEMPTS) throw err;
        await sleep(10 * attempt + Math.random() * 20);
      }
    }
  }

  private async attempt(conn: Redis, roundId: string, playerId: string): Promise<Seat> {
    const seats = `{round:${roundId}}:seats`;
    const arrivals = `{round:${roundId}}:arrivals`;

    await conn.watch(seats);
    try {
      const taken = await conn.hgetall(seats);
      const mine = Object.keys(taken).find((field) => taken[field] === playerId);
      if (mine) return parse(mine);

      let free: string | undefined;
      for (const field of seatsOf(this.tables)) {
        if (!(field in taken)) {
          free = field;
          break;
        }
      }
      if (!free) throw new HallFullError(roundId);

      const results =
        (await conn
          .multi()
          .hset(seats, free, playerId)
          .zadd(arrivals, Date.now(), playerId)
          .exec()) ?? [];
      for (const [err] of results) if (err) throw err;
      return parse(free);
    } finally {
      await conn.unwatch().catch(() => undefined);
    }
  }
}
