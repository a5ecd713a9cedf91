import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, defineScript } from 'redis';

const client = createClient({
  url: process.env.REDIS_URL,
  scripts: {
    dropIfMine: defineScript({
      NUMBER_OF_KEYS: 1,
      SCRIPT: `
        if redis.call('GET', KEYS[1]) == ARGV[1] then
          return redis.call('DEL', KEYS[1])
        end
        return 0`,
      parseCommand(parser, key, token) {
        parser.pushKey(key);
        parser.push(token);
      },
      transformReply: (reply) => reply === 1,
    }),
  },
});
client.on('error', (err) => console.error('[redis]', err.message));

let connecting;
function ready() {
  connecting ??= client.connect();
  return connecting;
}

const seatKey = (showId, seat) => `hold:${showId}:${seat}`;

export class SeatTaken extends Error {
  constructor(showId, seat) {
    super(`seat ${seat} of show ${showId} is being booked by someone else`);
    this.status = 409;
  }
}

export async function acquireSeat(showId, seat, { seconds = 20, attempts = 6 } = {}) {
  await ready();
  const token = randomUUID();
  for (let i = 0; i < attempts; i++) {
    const reply = await client.set(seatKey(showId, seat), token, { NX: true, EX: seconds });
    if (reply === 'OK') return token;
    const backoff = Math.min(50 * 2 ** i, 1000);
    await sleep(backoff / 2 + Math.random() * (backoff / 2));
  }
  throw new SeatTaken(showId, seat);
}

export async function releaseSeat(showId, seat, token) {
  await ready();
  const gone = await client.dropIfMine(seatKey(showId, seat), token);
  if (!gone) console.warn('seat hold had already expired', { showId, seat });
  return gone;
}

export async function bookSeat(showId, seat, book) {
  const token = await acquireSeat(showId, seat);
  try {
    return await book({ showId, seat });
  } finally {
    await releaseSeat(showId, seat, token).catch((err) => {
      console.error('could not release seat', err.message);
    });
  }
}

export function seatLabel(row, number) {
  return `${String.fromCharCode(65 + row)}${String(number).padStart(2, '0')}`;
}
