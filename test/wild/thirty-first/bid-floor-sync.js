import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const defaults = {
  exchange: process.env.EXCHANGE_URL,
  leaseSeconds: 20,
  requestTimeoutMs: 45_000,
  pageSize: 5_000,
};

const UNLOCK = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

/**
 * Pulls changes of bid floors from the exchange and adds them to ours. The exchange reports increments
 * ("+0.05 on placement 17"), so each page is to be added exactly once; `cursor` says how far we are.
 *
 * Called by a queue message, which several workers may receive.
 */
export const makeBidFloorSync = (options = {}) => {
  const cfg = { ...defaults, ...options };
  // No resending by the client: whether a page went in is seen from the cursor on the next run.
  const redis = cfg.redis ?? Redis.fromEnv({ retry: false });

  const fetchPage = async (seat, cursor) => {
    const url = new URL(`/v2/seats/${encodeURIComponent(seat)}/floor-changes`, cfg.exchange);
    url.searchParams.set('after', cursor);
    url.searchParams.set('limit', String(cfg.pageSize));
    // Large seats take the exchange half a minute.
    const res = await fetch(url, { signal: AbortSignal.timeout(cfg.requestTimeoutMs) });
    if (!res.ok) throw new Error(`exchange answered ${res.status} for seat ${seat}`);
    return res.json();
  };

  const addPage = async (seat, { changes, next }) => {
    const tx = redis.multi();
    for (const { placement, deltaMicros } of changes) {
      tx.hincrby(`floors:${seat}`, placement, deltaMicros);
    }
    tx.set(`floors:${seat}:cursor`, `c:${next}`);
    await tx.exec();
    return changes.length;
  };

  return async function sync(seat) {
    const key = `floors:${seat}:sync-lock`;
    const token = randomUUID();

    const got = await redis.set(key, token, { nx: true, ex: cfg.leaseSeconds });
    if (got !== 'OK') return { seat, skipped: true };

    try {
      const stored = await redis.get(`floors:${seat}:cursor`);
      const cursor = stored === null ? '0' : stored.slice(2);
      const page = await fetchPage(seat, cursor);
      const applied = page.changes.length === 0 ? 0 : await addPage(seat, page);
      return { seat, applied, more: Boolean(page.more) };
    } finally {
      try {
        await redis.eval(UNLOCK, [key], [token]);
      } catch (err) {
        console.warn(`seat ${seat}: unlock failed, the lease will run out`, err);
      }
    }
  };
};
