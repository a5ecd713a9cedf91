import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const UNLOCK = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;

export interface SaleLock {
  sku: string;
  msLeft(): number;
  release(): Promise<void>;
}

/**
 * Drops are limited to a few hundred pieces, so stock is counted under a lock that has to
 * survive the loss of a redis box. Five masters, see terraform/redis-locks.tf.
 */
export function createSaleLocker(urls: string[], ttlMs = 8_000) {
  const nodes = urls.map((url) => {
    const node = new Redis(url, {
      commandTimeout: 100,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    });
    node.on('error', (err) => console.debug('lock node', url, err.message));
    return node;
  });
  const majority = Math.floor(nodes.length / 2) + 1;
  const driftMs = Math.ceil(ttlMs / 100) + 2;

  async function unlockAll(key: string, token: string) {
    await Promise.allSettled(nodes.map((n) => n.eval(UNLOCK, 1, key, token)));
  }

  async function tryLock(sku: string): Promise<SaleLock | null> {
    const key = `sale:${sku}`;
    const token = randomUUID();
    const begin = performance.now();

    const answers = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', ttlMs, 'NX')));
    const votes = answers.filter((a) => a.status === 'fulfilled').length;

    const validUntil = begin + ttlMs - driftMs;
    if (votes < majority || performance.now() >= validUntil) {
      const down = answers.filter((a) => a.status === 'rejected').length;
      console.info(`sale lock ${sku}: ${votes}/${nodes.length} nodes (${down} down)`);
      await unlockAll(key, token);
      return null;
    }
    return {
      sku,
      msLeft: () => validUntil - performance.now(),
      release: () => unlockAll(key, token),
    };
  }

  return {
    async lock(sku: string, tries = 6): Promise<SaleLock> {
      for (let i = 0; i < tries; i++) {
        const lock = await tryLock(sku);
        if (lock) return lock;
        await sleep(60 + Math.random() * 140);
      }
      throw new Error(`sale of ${sku} is too busy`);
    },
    close: () => Promise.allSettled(nodes.map((n) => n.quit())),
  };
}

interface StockTable {
  count(sku: string, o: { timeoutMs: number }): Promise<number>;
  set(sku: string, left: number, o: { timeoutMs: number }): Promise<void>;
}

export async function buyOne(locker: ReturnType<typeof createSaleLocker>, stock: StockTable, sku: string) {
  const lock = await locker.lock(sku);
  try {
    const left = await stock.count(sku, { timeoutMs: 1_000 });
    if (left <= 0) return { ok: false as const, reason: 'sold out' };
    if (lock.msLeft() < 2_500) return { ok: false as const, reason: 'try again' };
    await stock.set(sku, left - 1, { timeoutMs: 1_500 });
    return { ok: true as const, left: left - 1 };
  } finally {
    await lock.release();
  }
}
