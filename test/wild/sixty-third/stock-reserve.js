import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';
import { withTransaction } from './db.js';
import { log } from './log.js';

const redis = Redis.fromEnv();

const LOCK_TTL_MS = 10_000;
const MAX_ATTEMPTS = 20;

// Takes the lock and hands out the next fencing number in one step.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class StaleFenceError extends Error {
  constructor(sku, fence) {
    super(`fence ${fence} for ${sku} has been overtaken`);
    this.name = 'StaleFenceError';
  }
}

async function acquire(sku) {
  const key = `stock:{${sku}}:lock`;
  const fenceKey = `stock:{${sku}}:fence`;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const token = randomUUID();
    const fence = await redis.eval(ACQUIRE, [key, fenceKey], [token, String(LOCK_TTL_MS)]);
    if (fence > 0) return { key, token, fence };
    await sleep(100 + Math.random() * 150);
  }
  return null;
}

async function release({ key, token }) {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    log.warn('stock lock not released, it will expire', { key, err });
  }
}

/** Picks bins, fullest first, until the quantity is covered. */
function allocate(bins, quantity) {
  const picks = [];
  let open = quantity;
  for (const [bin, onHand] of Object.entries(bins).sort((a, b) => b[1] - a[1])) {
    if (open === 0) break;
    const taken = Math.min(open, onHand);
    if (taken > 0) picks.push({ bin, taken });
    open -= taken;
  }
  return open === 0 ? picks : null;
}

export async function reserveStock({ sku, quantity, orderId }) {
  const lock = await acquire(sku);
  if (!lock) return { status: 'busy' };

  try {
    // Claiming the row with our fence shuts out everybody with a lower one.
    const claimed = await withTransaction({ timeoutMs: 3_000 }, (tx) =>
      tx.query(
        `UPDATE stock SET fence = $2 WHERE sku = $1 AND fence < $2 RETURNING bins`,
        [sku, lock.fence],
      ),
    );
    if (claimed.rowCount === 0) throw new StaleFenceError(sku, lock.fence);

    const { bins } = claimed.rows[0];
    const picks = allocate(bins, quantity);
    if (picks === null) return { status: 'out-of-stock' };

    const next = { ...bins };
    for (const { bin, taken } of picks) next[bin] -= taken;

    await withTransaction({ timeoutMs: 3_000 }, async (tx) => {
      const written = await tx.query(
        `UPDATE stock SET bins = $3, updated_at = now() WHERE sku = $1 AND fence = $2`,
        [sku, lock.fence, JSON.stringify(next)],
      );
      if (written.rowCount === 0) throw new StaleFenceError(sku, lock.fence);
      await tx.query(
        `INSERT INTO reservations (order_id, sku, quantity, picks) VALUES ($1, $2, $3, $4)`,
        [orderId, sku, quantity, JSON.stringify(picks)],
      );
    });
    return { status: 'reserved', picks };
  } finally {
    await release(lock);
  }
}
