import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

/*
 * Warehouse syncs of one warehouse must not run side by side. Waiters used to poll every
 * 50 ms, which was a third of all commands on that Redis; now the one who releases
 * publishes on a channel and the waiters wake up.
 */

const LOCK_MS = 60_000;
const SYNC_LIMIT_MS = 45_000;

const RELEASE_AND_WAKE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 'free')
  return 1
end
return 0`;

export class WakingLock {
  #redis;
  #subscriber;
  #waiters = new Map(); // channel -> Set of callbacks

  constructor(redis) {
    this.#redis = redis;
    this.#subscriber = redis.duplicate();
    this.#subscriber.on('error', (err) => console.error('subscriber:', err.message));
    this.#subscriber.on('message', (channel) => {
      const waiting = this.#waiters.get(channel);
      if (!waiting) return;
      this.#waiters.delete(channel);
      for (const wake of waiting) wake();
    });
  }

  async #nextWakeUp(channel) {
    let wake;
    const woken = new Promise((resolve) => {
      wake = resolve;
    });
    let waiting = this.#waiters.get(channel);
    if (!waiting) {
      waiting = new Set();
      this.#waiters.set(channel, waiting);
    }
    waiting.add(wake);
    await this.#subscriber.subscribe(channel);
    await woken;
  }

  async acquire(name) {
    const key = `lock:${name}`;
    const channel = `lock-free:${name}`;
    const token = randomUUID();
    for (;;) {
      const reply = await this.#redis.set(key, token, 'PX', LOCK_MS, 'NX');
      if (reply === 'OK') {
        return { key, channel, token };
      }
      await this.#nextWakeUp(channel);
    }
  }

  async release({ key, channel, token }) {
    return (await this.#redis.eval(RELEASE_AND_WAKE, 2, key, channel, token)) === 1;
  }

  async close() {
    await this.#subscriber.quit();
  }
}

export function createInventorySync({
  warehouses,
  inventory,
  log = console,
  redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'),
}) {
  const lock = new WakingLock(redis);

  async function sync(warehouseId) {
    const held = await lock.acquire(`inventory-sync:${warehouseId}`);
    try {
      const signal = AbortSignal.timeout(SYNC_LIMIT_MS);
      const cursor = await inventory.cursor(warehouseId, { signal });
      const changes = await warehouses.changesSince(warehouseId, cursor, { signal });
      if (changes.items.length > 0) {
        await inventory.apply(warehouseId, changes.items, changes.nextCursor, { signal });
      }
      log.info(`warehouse ${warehouseId}: ${changes.items.length} changes`);
      return changes.items.length;
    } finally {
      try {
        if (!(await lock.release(held))) {
          log.warn(`warehouse ${warehouseId}: lock had run out`);
        }
      } catch (err) {
        log.warn(`warehouse ${warehouseId}: release failed: ${err.message}`);
      }
    }
  }

  return {
    sync,

    /** message of the `warehouse.changed` topic */
    async onMessage(message) {
      const { warehouseId } = JSON.parse(message.value.toString());
      await sync(warehouseId);
    },

    async close() {
      await lock.close();
      await redis.quit();
    },
  };
}
