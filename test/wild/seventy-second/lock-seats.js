const { randomUUID } = require('crypto');

const RELEASE = `
local freed = 0
for i, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    freed = freed + redis.call('DEL', key)
  end
end
return freed`;

const HOLD_MS = 2 * 60 * 1000;

class SeatsTakenError extends Error {
  constructor(seats) {
    super(`seats not available: ${seats.join(', ')}`);
    this.name = 'SeatsTakenError';
    this.statusCode = 409;
  }
}

/**
 * Holds seats of a show for a customer during checkout. Either all of the
 * seats are held or none of them.
 *
 * @param {import('ioredis').Redis} redis
 */
module.exports = function seatLocks(redis) {
  const keyOf = (show, seat) => `show:${show}:seat:${seat}:hold`;

  async function release(hold) {
    return redis.eval(RELEASE, hold.keys.length, ...hold.keys, hold.token);
  }

  async function hold(show, seats) {
    const wanted = [...new Set(seats)].sort();
    if (wanted.length === 0) throw new TypeError('no seats given');

    const token = randomUUID();
    const keys = wanted.map((seat) => keyOf(show, seat));

    const tx = redis.multi();
    for (const key of keys) {
      tx.set(key, token, 'PX', HOLD_MS, 'NX');
    }
    const replies = await tx.exec();

    const held = replies !== null && replies.every((reply) => reply && !reply[0]);
    if (!held) {
      await release({ keys, token });
      throw new SeatsTakenError(wanted);
    }

    return { show, seats: wanted, keys, token, expiresAt: Date.now() + HOLD_MS };
  }

  async function withSeats(show, seats, fn) {
    const mine = await hold(show, seats);
    try {
      return await fn(mine);
    } finally {
      await release(mine).catch((err) => {
        console.error('seats will be free in two minutes at the latest', err);
      });
    }
  }

  return { hold, release, withSeats };
};

module.exports.SeatsTakenError = SeatsTakenError;
