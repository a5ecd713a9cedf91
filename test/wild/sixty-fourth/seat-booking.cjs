'use strict';

/**
 * Locks several seats at once, all or nothing, with optimistic transactions:
 *
 *   WATCH seat keys -> MGET -> nobody has them? -> MULTI / SET ... / EXEC
 *
 * WATCH belongs to the connection, so each attempt has a connection of its own.
 */

const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');

const HOLD_MS = 2 * 60 * 1000;

const RELEASE = `
local n = 0
for _, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then
    n = n + redis.call('del', key)
  end
end
return n
`;

class SeatsTaken extends Error {
  constructor(seats) {
    super(`Seats taken: ${seats.join(', ')}`);
    this.name = 'SeatsTaken';
    this.status = 409;
  }
}

async function holdSeats(showId, seats) {
  const keys = [...seats].sort().map((seat) => `seat:{${showId}}:${seat}`);
  const token = randomUUID();
  const conn = redis.duplicate({ retryStrategy: () => null }); // a reconnect would drop the WATCH
  conn.on('error', () => {}); // the commands reject

  try {
    await conn.watch(...keys);

    const owners = await conn.mget(...keys);
    const taken = keys.filter((_, i) => owners[i] !== null);
    if (taken.length > 0) {
      await conn.unwatch();
      throw new SeatsTaken(taken.map((key) => key.split(':').pop()));
    }

    const tx = conn.multi();
    for (const key of keys) {
      tx.set(key, token, 'PX', HOLD_MS);
    }
    const replies = await tx.exec();

    // a failed command does not undo the others, so take them back
    for (const [err] of replies ?? []) {
      if (err) {
        await releaseSeats({ keys, token });
        throw err;
      }
    }
    return { showId, seats, keys, token };
  } finally {
    conn.disconnect();
  }
}

async function releaseSeats({ keys, token }) {
  return redis.eval(RELEASE, keys.length, ...keys, token);
}

/**
 * POST /shows/:show/bookings
 * Holds the seats, charges the card and writes the tickets.
 */
async function book({ showId, seats, customer, card }, { payments, tickets }) {
  if (seats.length === 0) throw new RangeError('no seats');

  const hold = await holdSeats(showId, seats);
  try {
    const sold = await tickets.findSold(showId, seats, { timeout: 5_000 });
    if (sold.length > 0) throw new SeatsTaken(sold);

    const charge = await payments.charge(card, {
      amount: await tickets.priceOf(showId, seats, { timeout: 5_000 }),
      idempotencyKey: hold.token,
      timeout: 30_000,
    });
    return await tickets.issue({ showId, seats, customer, charge: charge.id, timeout: 10_000 });
  } finally {
    await releaseSeats(hold).catch((err) => {
      console.warn(`show ${showId}: seats stay on hold until they expire`, err.message);
    });
  }
}

module.exports = { book, holdSeats, releaseSeats, SeatsTaken };
