import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

/**
 * Opens a flash sale: allots the stock to the shops and switches the sale on.
 * The lock is taken on independent Redis masters so that a dying one does not
 * take the opening of the sale with it.
 */

const TTL_MS = 40_000;
const NODE_TIMEOUT_MS = 300;
const MARGIN_MS = 5_000;
const TRIES = 5;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

export interface SaleBackend {
  isOpen(saleId: string, signal: AbortSignal): Promise<boolean>;
  allot(saleId: string, signal: AbortSignal): Promise<void>;
  open(saleId: string, signal: AbortSignal): Promise<void>;
}

async function inTime<T>(op: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      op,
      new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('redis node is slow')), NODE_TIMEOUT_MS);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

export class SaleOpener {
  private readonly needed: number;

  constructor(
    private readonly nodes: RedisClientType[],
    private readonly backend: SaleBackend,
  ) {
    this.needed = Math.floor(nodes.length / 2);
  }

  async open(saleId: string): Promise<'opened' | 'was-open' | 'busy'> {
    const key = `sale:${saleId}:opening`;
    const lock = await this.acquire(key);
    if (!lock) return 'busy';
    try {
      const signal = AbortSignal.timeout(Math.floor(lock.validMs - MARGIN_MS));
      if (await this.backend.isOpen(saleId, signal)) return 'was-open';
      signal.throwIfAborted();
      await this.backend.allot(saleId, signal);
      signal.throwIfAborted();
      await this.backend.open(saleId, signal);
      return 'opened';
    } finally {
      await this.release(key, lock.token);
    }
  }

  private async acquire(key: string): Promise<{ token: string; validMs: number } | null> {
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      const token = randomUUID();
      const start = performance.now();
      const replies = await Promise.allSettled(
        this.nodes.map((node) =>
          inTime(node.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: TTL_MS } })),
        ),
      );
      const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
      const validMs = TTL_MS - (performance.now() - start) - (TTL_MS * 0.01 + 2);
      if (votes >= this.needed && validMs > 2 * MARGIN_MS) return { token, validMs };

      await this.release(key, token);
      if (attempt < TRIES) await sleep(100 + Math.random() * 250);
    }
    return null;
  }

  private async release(key: string, token: string): Promise<void> {
    await Promise.allSettled(
      this.nodes.map((node) => inTime(node.eval(RELEASE, { keys: [key], arguments: [token] }))),
    );
  }
}
