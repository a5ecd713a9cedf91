import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Queue worker that books loyalty points. The loyalty provider only has "read balance"
 * and "write balance", so bookings of one member are done one after the other.
 */

// Both provider calls of a booking share this budget; they are cancelled when it is used up.
const BUDGET_MS = 8_000;
const LOCK_TTL_MS = 60_000;
const MAX_WAIT_MS = 30_000;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
else
  return 0
end`;

export class RetryLaterError extends Error {
  constructor(message) {
    super(message);
    this.name = 'RetryLaterError';
  }
}

/** Higher-order: jobs with the same key run one at a time, across all workers. */
function oneAtATime(client, keyOf, handler, log) {
  return async (job) => {
    const key = `lock:${keyOf(job)}`;
    const token = randomUUID();
    const giveUpAt = performance.now() + MAX_WAIT_MS;

    let delay = 25;
    while ((await client.set(key, token, { NX: true, PX: LOCK_TTL_MS })) !== 'OK') {
      if (performance.now() > giveUpAt) throw new RetryLaterError(`${key} is busy`);
      await sleep(delay * (0.5 + Math.random()));
      delay = Math.min(delay * 2, 800);
    }

    try {
      return await handler(job, AbortSignal.timeout(BUDGET_MS));
    } finally {
      try {
        const removed = await client.eval(UNLOCK, { keys: [key], arguments: [token] });
        if (removed !== 1) log.warn(`${key} had expired before job ${job.id} was through`);
      } catch (err) {
        log.warn(`${key} not removed, expires on its own: ${err.message}`);
      }
    }
  };
}

/**
 * @param {object} deps
 * @param deps.redis     connected client of the `redis` package
 * @param deps.baseUrl   loyalty provider
 */
export function createPointsWorker({ redis, baseUrl, apiKey, log = console, fetchImpl = fetch }) {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };

  async function book(job, signal) {
    const { memberId, points, orderId } = job.data;
    const url = `${baseUrl}/members/${encodeURIComponent(memberId)}/balance`;

    const current = await fetchImpl(url, { headers, signal });
    if (!current.ok) throw new RetryLaterError(`balance of ${memberId}: HTTP ${current.status}`);
    const { balance, lastBookings = [] } = await current.json();

    if (lastBookings.includes(orderId)) {
      log.info(`order ${orderId} already booked for ${memberId}`);
      return { balance, booked: false };
    }
    if (balance + points < 0) throw new Error(`member ${memberId} has only ${balance} points`);

    const written = await fetchImpl(url, {
      method: 'PUT',
      // The provider refuses the write if the balance has a newer version.
      headers: { ...headers, 'if-match': current.headers.get('etag') ?? '' },
      body: JSON.stringify({ balance: balance + points, booking: orderId }),
      signal,
    });
    if (!written.ok) throw new RetryLaterError(`booking ${orderId}: HTTP ${written.status}`);

    log.info(`booked ${points} points for ${memberId} (order ${orderId})`);
    return { balance: balance + points, booked: true };
  }

  return oneAtATime(redis, (job) => `loyalty:${job.data.memberId}`, book, log);
}
