import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Product feed for the marketplaces, triggered by a scheduler on each node
 * every five minutes. A feed that went out frees its lock at once. After an
 * error we do not: the marketplace throttles us when we come back too soon,
 * so the lock is simply left to run out as a cool-down.
 */

const TTL_MS = 90_000;
const SAFETY_MS = 15_000;

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;

export interface Marketplace {
  name: string;
  begin(signal: AbortSignal): Promise<string>;
  push(feedId: string, items: unknown[], signal: AbortSignal): Promise<void>;
  commit(feedId: string, signal: AbortSignal): Promise<void>;
}

export interface Catalogue {
  changedItems(marketplace: string): AsyncIterable<unknown[]>;
}

export async function exportFeed(
  redis: Redis,
  catalogue: Catalogue,
  market: Marketplace,
): Promise<'exported' | 'skipped'> {
  const key = `feed:${market.name}:lock`;
  const token = randomUUID();
  const sentAt = performance.now();

  const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (reply !== 'OK') return 'skipped';

  const lost = new AbortController();
  let validUntil = sentAt + TTL_MS - SAFETY_MS;
  const keepAlive = setInterval(async () => {
    const at = performance.now();
    if (at >= validUntil) lost.abort(new Error('feed lock ran out'));
    try {
      const kept = await redis.eval(EXTEND, 1, key, token, TTL_MS);
      if (kept === 1) validUntil = at + TTL_MS - SAFETY_MS;
      else lost.abort(new Error('feed lock was lost'));
    } catch {
      // checked against validUntil at the next beat
    }
  }, TTL_MS / 9);

  const check = () => {
    lost.signal.throwIfAborted();
    if (performance.now() >= validUntil) throw new Error('feed lock ran out');
  };

  const feedId = await market.begin(lost.signal);
  for await (const items of catalogue.changedItems(market.name)) {
    check();
    await market.push(feedId, items, lost.signal);
  }
  check();
  await market.commit(feedId, lost.signal);

  clearInterval(keepAlive);
  await redis.eval(UNLOCK, 1, key, token).catch(() => {});
  return 'exported';
}
