import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

// Releasing a wave hands a warehouse's waiting orders to the pickers. It has to be done by
// one planner at a time, or the same order ends up on two trolleys. The lock is spread over
// independent Redis nodes (LOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379) so that
// a node may be down without stopping the warehouse.

const TTL_MS = 30_000;
const NODE_TIMEOUT_MS = 250;
const CLOCK_DRIFT_MS = TTL_MS * 0.01 + 2;
const WAVE_LIMIT_MS = 10_000;
const ATTEMPTS = 8;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export function connectNodes(urls = process.env.LOCK_NODES ?? '') {
  return urls
    .split(',')
    .filter(Boolean)
    .map((url) => {
      const node = new Redis(url, {
        commandTimeout: NODE_TIMEOUT_MS,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
      });
      node.on('error', (err) => console.warn(`lock node ${url}: ${err.message}`));
      return node;
    });
}

export class WaveLock {
  constructor(nodes) {
    if (nodes.length === 0) throw new Error('no lock nodes configured');
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2);
  }

  async #tryOnce(key, token) {
    const startedAt = Date.now();
    const replies = await Promise.allSettled(
      this.nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
    );
    const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const validFor = TTL_MS - (Date.now() - startedAt) - CLOCK_DRIFT_MS;

    // What is left has to last for a whole wave.
    if (granted >= this.quorum && validFor > WAVE_LIMIT_MS) return true;
    await this.#unlock(key, token);
    return false;
  }

  async #unlock(key, token) {
    const replies = await Promise.allSettled(
      this.nodes.map((node) => node.eval(UNLOCK, 1, key, token)),
    );
    for (const r of replies) {
      if (r.status === 'rejected') console.warn(`${key}: unlock on a node failed: ${r.reason.message}`);
    }
  }

  /** Resolves to a function that releases the lock, or null if it could not be had. */
  async acquire(warehouseId) {
    const key = `wave:${warehouseId}`;
    const token = randomUUID();
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      if (await this.#tryOnce(key, token)) return () => this.#unlock(key, token);
      if (attempt < ATTEMPTS) await sleep(100 + Math.random() * 300);
    }
    return null;
  }
}

export async function releaseWave(lock, warehouseId, { orders, trolleys, log = console }) {
  const unlock = await lock.acquire(warehouseId);
  if (!unlock) {
    log.info(`wave ${warehouseId}: another planner is at it`);
    return { assigned: 0 };
  }

  try {
    const signal = AbortSignal.timeout(WAVE_LIMIT_MS);
    const waiting = await orders.waiting(warehouseId, { signal });
    const plan = await trolleys.plan(warehouseId, waiting, { signal });
    await trolleys.assign(plan, { signal });
    log.info(`wave ${warehouseId}: ${waiting.length} orders on ${plan.length} trolleys`);
    return { assigned: waiting.length };
  } finally {
    await unlock();
  }
}
