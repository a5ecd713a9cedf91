'use strict';

const { randomBytes } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

// Seats of one show are one hash, field = seat, value = {"by","until"}.
// A hold covers several neighbouring seats: all of them or none.

const LOCK_MS = 5000;
const HOLD_MS = 10 * 60 * 1000;
const ATTEMPTS = 12;

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

// KEYS: lock, seats    ARGV: token, value, seat, seat, ...
const WRITE_HOLDS = `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  for i = 3, #ARGV do
    redis.call('hset', KEYS[2], ARGV[i], ARGV[2])
  end
  return 1
`;

class SeatsTaken extends Error {
  constructor(seats) {
    super(`already taken: ${seats.join(', ')}`);
    this.seats = seats;
  }
}

class ShowBusy extends Error {}

async function acquire(redis, key) {
  const token = randomBytes(16).toString('hex');
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (attempt > 0) {
      const backoff = Math.min(25 * 2 ** attempt, 400);
      await sleep(backoff / 2 + Math.random() * (backoff / 2));
    }
    const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    if (reply === 'OK') return token;
  }
  throw new ShowBusy(`too much going on at ${key}`);
}

/**
 * @param {import('ioredis').Redis} redis
 * @param {{ showId: string, seats: string[], customerId: string }} request
 */
async function holdSeats(redis, { showId, seats, customerId }) {
  if (seats.length === 0) throw new RangeError('no seats');
  const lockKey = `show:{${showId}}:lock`;
  const seatsKey = `show:{${showId}}:seats`;

  const token = await acquire(redis, lockKey);
  try {
    const current = await redis.hmget(seatsKey, ...seats);
    const now = Date.now();
    const taken = seats.filter((_, i) => {
      if (!current[i]) return false;
      const hold = JSON.parse(current[i]);
      return hold.until === null || (hold.until > now && hold.by !== customerId);
    });
    if (taken.length > 0) throw new SeatsTaken(taken);

    const until = now + HOLD_MS;
    const written = await redis.eval(
      WRITE_HOLDS, 2, lockKey, seatsKey,
      token, JSON.stringify({ by: customerId, until }), ...seats,
    );
    if (written !== 1) throw new ShowBusy(`lost ${lockKey}, nothing was held`);
    return { seats, until };
  } finally {
    await redis.eval(UNLOCK, 1, lockKey, token).catch((err) => {
      console.warn(`seat-hold: ${lockKey} left to expire: ${err.message}`);
    });
  }
}

module.exports = { holdSeats, SeatsTaken, ShowBusy };
