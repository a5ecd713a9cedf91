import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { log } from './log.js';

const TTL_MS = 12_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const NODE_TIMEOUT_MS = 250;
const DB_TIMEOUT_MS = 2_500;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const withTimeout = (promise, ms) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('lock node timed out')), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

export async function openLockNodes(urls) {
  const nodes = urls.map((url) => {
    const node = createClient({ url, disableOfflineQueue: true });
    node.on('error', (err) => log.warn({ err, url }, 'lock node error'));
    return node;
  });
  await Promise.allSettled(nodes.map((n) => withTimeout(n.connect(), 5_000)));
  return nodes;
}

export class SeatLock {
  constructor(nodes) {
    this.nodes = nodes;
  }

  async acquire(key, attempts = 6) {
    for (let i = 0; i < attempts; i++) {
      const token = randomUUID();
      const startedAt = Date.now();

      // Nodes that are reconnecting would only cost us their timeout.
      const voters = this.nodes.filter((n) => n.isReady);
      const needed = Math.floor(voters.length / 2) + 1;
      const votes = await Promise.allSettled(
        voters.map((n) => withTimeout(n.set(key, token, { NX: true, PX: TTL_MS }), NODE_TIMEOUT_MS)),
      );
      const granted = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;
      const validUntil = startedAt + TTL_MS - DRIFT_MS;

      if (granted >= needed && Date.now() < validUntil) {
        return { key, token, validUntil };
      }
      await this.release({ key, token });
      await sleep(100 + Math.random() * 250);
    }
    return null;
  }

  async release({ key, token }) {
    await Promise.allSettled(
      this.nodes.map((n) =>
        withTimeout(n.eval(RELEASE, { keys: [key], arguments: [token] }), NODE_TIMEOUT_MS),
      ),
    );
  }
}

/** Gives one of the customer's paid seats to the user. */
export async function claimSeat({ seatLock, db }, customerId, userId) {
  const lock = await seatLock.acquire(`seats:${customerId}`);
  if (!lock) return { ok: false, reason: 'busy' };
  try {
    const { rows } = await db.query({
      text: `SELECT c.paid_seats, count(s.user_id)::int AS used
               FROM customers c LEFT JOIN seats s ON s.customer_id = c.id
              WHERE c.id = $1 GROUP BY c.id`,
      values: [customerId],
      query_timeout: DB_TIMEOUT_MS,
    });
    if (rows.length === 0) return { ok: false, reason: 'unknown customer' };
    if (rows[0].used >= rows[0].paid_seats) return { ok: false, reason: 'no seat left' };

    if (lock.validUntil - Date.now() < DB_TIMEOUT_MS) return { ok: false, reason: 'busy' };
    await db.query({
      text: 'INSERT INTO seats (customer_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING',
      values: [customerId, userId],
      query_timeout: DB_TIMEOUT_MS,
    });
    return { ok: true };
  } finally {
    await seatLock.release(lock);
  }
}
