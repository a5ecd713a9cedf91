// Orders medicines when the stock of a branch gets low. What is in `orders` is
// transmitted to the wholesaler every ten minutes.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'replenishment' });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  query_timeout: 3_000,
});

// two per data centre, independent of one another
const LOCK_HOSTS = [
  'lock-1.fra.internal',
  'lock-2.fra.internal',
  'lock-1.ams.internal',
  'lock-2.ams.internal',
];

const servers = LOCK_HOSTS.map((host) => {
  const r = new Redis({ host, commandTimeout: 250, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  r.on('error', (err) => log.debug({ host, err }, 'lock server'));
  return r;
});

const TTL_MS = 60_000;
const NEEDED = Math.ceil(servers.length / 2);

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class DistributedLock {
  constructor(private readonly key: string, private readonly token = randomUUID()) {}

  async tryAcquire(): Promise<boolean> {
    const start = performance.now();
    const results = await Promise.allSettled(
      servers.map((s) => s.set(this.key, this.token, 'PX', TTL_MS, 'NX')),
    );
    const yes = results.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const validFor = TTL_MS - (performance.now() - start) - TTL_MS * 0.01 - 2;
    // the work below is over after 30 seconds at the very latest
    if (yes >= NEEDED && validFor > 35_000) return true;
    await this.release();
    return false;
  }

  async acquire(tries = 10): Promise<boolean> {
    for (let i = 0; i < tries; i++) {
      if (await this.tryAcquire()) return true;
      await sleep(150 + Math.random() * 350);
    }
    return false;
  }

  async release(): Promise<void> {
    await Promise.allSettled(servers.map((s) => s.eval(RELEASE, 1, this.key, this.token)));
  }
}

async function orderIfLow(branchId: string, pzn: string): Promise<boolean> {
  const { rows } = await pool.query(
    `SELECT s.qty, s.min_qty, s.order_qty, coalesce(sum(o.qty), 0)::int AS on_order
       FROM stock s LEFT JOIN orders o ON o.branch_id = s.branch_id AND o.pzn = s.pzn AND o.arrived_at IS NULL
      WHERE s.branch_id = $1 AND s.pzn = $2
      GROUP BY s.qty, s.min_qty, s.order_qty`,
    [branchId, pzn],
  );
  const s = rows[0];
  if (!s || s.qty + s.on_order >= s.min_qty) return false;

  const res = await fetch(`${process.env.WHOLESALER_URL}/articles/${pzn}`, {
    signal: AbortSignal.timeout(15_000),
  });
  if (!res.ok) throw new Error(`wholesaler: ${res.status}`);
  const { packSize } = (await res.json()) as { packSize: number };
  const qty = Math.ceil(s.order_qty / packSize) * packSize;
  await pool.query('INSERT INTO orders (branch_id, pzn, qty) VALUES ($1, $2, $3)', [branchId, pzn, qty]);
  return true;
}

export async function replenish(branchId: string, pzn: string): Promise<'ordered' | 'enough' | 'busy'> {
  const lock = new DistributedLock(`replenish:${branchId}:${pzn}`);
  if (!(await lock.acquire())) return 'busy';
  try {
    return (await orderIfLow(branchId, pzn)) ? 'ordered' : 'enough';
  } finally {
    await lock.release();
  }
}
