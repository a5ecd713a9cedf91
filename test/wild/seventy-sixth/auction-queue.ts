import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const LEASE_MS = 8_000;
const POLL_MS = 75;

// Only the first in line may take the lock; it leaves the line at the same moment.
const STEP_UP = `
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then
  return 0
end
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
redis.call('LPOP', KEYS[1])
return 1`;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class QueueTimeout extends Error {}

/**
 * Mutex that serves bidders in the order in which they came. With a plain SET NX the players with
 * the best ping won nearly every bid (see GAME-4471).
 */
export class AuctionQueue {
  constructor(private readonly redis: Redis = new Redis(process.env.AUCTION_REDIS_URL!)) {}

  async inTurn<T>(auctionId: string, maxWaitMs: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const line = `auction:{${auctionId}}:line`;
    const lock = `auction:{${auctionId}}:lock`;
    const ticket = randomUUID();

    const since = await this.waitForTurn(line, lock, ticket, maxWaitMs);

    const ctl = new AbortController();
    let goodUntil = since + LEASE_MS;
    const renewal = setInterval(() => {
      if (performance.now() > goodUntil - 1_000) ctl.abort(new Error('auction lock ran out'));
      if (ctl.signal.aborted) return;
      const at = performance.now();
      this.redis.eval(RENEW, 1, lock, ticket, LEASE_MS).then(
        (ok) => {
          if (ok === 1) goodUntil = Math.max(goodUntil, at + LEASE_MS);
          else ctl.abort(new Error('auction lock lost'));
        },
        (err) => console.warn('auction lock not renewed', auctionId, err.message),
      );
    }, 500);

    try {
      // fn stores the bid with `UPDATE ... WHERE highest_bid < $bid`, a late one is refused there
      return await fn(ctl.signal);
    } finally {
      clearInterval(renewal);
      await this.redis.eval(UNLOCK, 1, lock, ticket).catch((err) => {
        console.warn('auction lock left to expire', auctionId, err.message);
      });
    }
  }

  private async waitForTurn(line: string, lock: string, ticket: string, maxWaitMs: number): Promise<number> {
    const giveUpAt = performance.now() + maxWaitMs;
    await this.redis.rpush(line, ticket);
    try {
      while (performance.now() < giveUpAt) {
        const at = performance.now();
        const up = await this.redis.eval(STEP_UP, 2, line, lock, ticket, LEASE_MS);
        if (up === 1) return at;
        await new Promise((r) => setTimeout(r, POLL_MS));
      }
      throw new QueueTimeout(`no turn within ${maxWaitMs} ms`);
    } catch (err) {
      await this.redis.lrem(line, 0, ticket);
      throw err;
    }
  }
}
