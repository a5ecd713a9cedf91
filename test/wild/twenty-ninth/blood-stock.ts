import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/**
 * Small Redlock: we did not want another dependency in the hospital build.
 * REDIS_NODES lists independent masters, e.g. "10.1.0.5:6379,10.2.0.5:6379,10.3.0.5:6379".
 */

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const CLOCK_DRIFT = 0.01;

export interface MultiLock {
  key: string;
  token: string;
  validUntil: number;
}

export function connectNodes(list = process.env.REDIS_NODES ?? ''): Redis[] {
  return list
    .split(',')
    .map((entry) => entry.trim())
    .filter(Boolean)
    .map((entry) => {
      const [host, port] = entry.split(':');
      const node = new Redis({ host, port: Number(port), commandTimeout: 200, maxRetriesPerRequest: 0 });
      node.on('error', (err) => console.warn(`[blood-stock] ${entry}: ${err.message}`));
      return node;
    });
}

export class MultiNodeLocker {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(nodes: Redis[]) {
    if (nodes.length < 3) throw new Error('at least three lock nodes are needed');
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2);
  }

  async acquire(key: string, ttlMs: number, retries = 10): Promise<MultiLock | null> {
    for (let attempt = 0; attempt <= retries; attempt++) {
      const token = randomUUID();
      const start = performance.now();
      const replies = await Promise.allSettled(
        this.nodes.map((node) => node.set(key, token, 'PX', ttlMs, 'NX')),
      );
      const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
      const validUntil = start + ttlMs - ttlMs * CLOCK_DRIFT - 2;

      if (votes >= this.quorum && performance.now() < validUntil) {
        return { key, token, validUntil };
      }
      await this.release({ key, token });
      await sleep(100 + Math.random() * 200);
    }
    return null;
  }

  async release({ key, token }: Pick<MultiLock, 'key' | 'token'>): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(UNLOCK, 1, key, token)));
  }
}

export interface StockApi {
  units(bank: string, group: string, signal: AbortSignal): Promise<number>;
  setUnits(bank: string, group: string, units: number, signal: AbortSignal): Promise<void>;
}

/** Takes units of one blood group out of a bank for an operation. */
export async function reserveUnits(
  locker: MultiNodeLocker,
  stock: StockApi,
  bank: string,
  group: string,
  wanted: number,
): Promise<boolean> {
  const lock = await locker.acquire(`blood:${bank}:${group}`, 15_000);
  if (!lock) throw new Error(`stock of ${group} in ${bank} is busy`);

  try {
    const left = lock.validUntil - performance.now();
    const signal = AbortSignal.timeout(Math.max(1, Math.floor(left - 3_000)));
    const units = await stock.units(bank, group, signal);
    if (units < wanted) return false;
    signal.throwIfAborted();
    await stock.setUnits(bank, group, units - wanted, signal);
    return true;
  } finally {
    await locker.release(lock);
  }
}
