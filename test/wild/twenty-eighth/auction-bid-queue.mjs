import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

/**
 * Bids on one lot are taken strictly in order of arrival. Each bid draws a ticket at the
 * end of the lot's queue and is handled when its ticket is at the front.
 */

const POLL_MS = 30;
const BID_TIMEOUT_MS = Number(process.env.BID_TIMEOUT_MS ?? 3_000);

export class BidTimeoutError extends Error {
  constructor(lotId) {
    super(`lot ${lotId}: too many bids at the moment`);
    this.name = 'BidTimeoutError';
    this.statusCode = 503;
  }
}

export class BidTooLowError extends Error {
  constructor(amount, highest) {
    super(`bid of ${amount} does not beat ${highest}`);
    this.name = 'BidTooLowError';
    this.statusCode = 409;
  }
}

export function connect(url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379') {
  const redis = new Redis(url, { maxRetriesPerRequest: 3 });
  redis.on('error', (err) => console.error('[bids] redis', err.message));
  return redis;
}

async function waitForTurn(redis, queue, ticket, lotId, timeoutMs) {
  const giveUpAt = performance.now() + timeoutMs;
  for (;;) {
    const front = await redis.lindex(queue, 0);
    if (front === ticket) return;
    if (performance.now() >= giveUpAt) throw new BidTimeoutError(lotId);
    await sleep(POLL_MS);
  }
}

/** Runs `fn` when all earlier bids on the lot have been dealt with. */
export async function inBidOrder(redis, lotId, fn, { timeoutMs = BID_TIMEOUT_MS } = {}) {
  const queue = `lot:${lotId}:bid-queue`;
  const ticket = randomUUID();

  await redis.rpush(queue, ticket);
  await waitForTurn(redis, queue, ticket, lotId, timeoutMs);

  try {
    return await fn();
  } finally {
    await redis.lrem(queue, 1, ticket);
  }
}

export async function placeBid(redis, lotId, { bidder, amount }) {
  return inBidOrder(redis, lotId, async () => {
    const lot = await redis.hgetall(`lot:${lotId}`);
    if (lot.state !== 'open') throw new Error(`lot ${lotId} is not open`);

    const highest = Number(lot.highest ?? 0);
    if (amount <= highest) throw new BidTooLowError(amount, highest);

    await redis
      .multi()
      .hset(`lot:${lotId}`, { highest: String(amount), bidder })
      .xadd(`lot:${lotId}:history`, '*', 'bidder', bidder, 'amount', String(amount))
      .exec();
    return { lotId, highest: amount, bidder };
  });
}

/** POST /lots/:lotId/bids */
export function bidHandler(redis) {
  return async (req, res) => {
    try {
      const result = await placeBid(redis, req.params.lotId, {
        bidder: req.user.id,
        amount: Number(req.body.amount),
      });
      res.status(201).json(result);
    } catch (err) {
      if (!err.statusCode) console.error('[bids]', err);
      res.status(err.statusCode ?? 500).json({ error: err.message });
    }
  };
}
