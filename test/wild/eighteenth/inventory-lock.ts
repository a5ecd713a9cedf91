import { hostname } from 'node:os';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class InventoryBusy extends Error {}

export interface Hold {
  readonly sku: string;
  readonly validUntil: number;
}

/**
 * Guards the stock row of a SKU while a reservation is checked and written.
 * One instance per process, shared by all request handlers.
 */
export class InventoryLock {
  private readonly client: RedisClient;
  private readonly ttlMs: number;
  // Readable in redis-cli when support asks who sits on a SKU.
  private readonly owner = `${hostname()}:${process.pid}`;

  constructor(client: RedisClient, ttlMs = 5_000) {
    this.client = client;
    this.ttlMs = ttlMs;
  }

  private key(sku: string): string {
    return `inventory:lock:${sku}`;
  }

  /** null if the SKU is being worked on. */
  async tryHold(sku: string): Promise<Hold | null> {
    const sentAt = performance.now();
    const reply = await this.client.set(this.key(sku), this.owner, { NX: true, PX: this.ttlMs });
    if (reply !== 'OK') return null;
    return { sku, validUntil: sentAt + this.ttlMs * 0.95 };
  }

  async release(hold: Hold): Promise<boolean> {
    const removed: unknown = await this.client.eval(RELEASE, {
      keys: [this.key(hold.sku)],
      arguments: [this.owner],
    });
    return removed === 1;
  }

  /** Milliseconds for which the hold can be relied on. */
  left(hold: Hold): number {
    return Math.max(0, Math.floor(hold.validUntil - performance.now()));
  }
}

export interface Stock {
  available(sku: string, signal: AbortSignal): Promise<number>;
  reserve(sku: string, quantity: number, signal: AbortSignal): Promise<void>;
}

export async function reserve(lock: InventoryLock, stock: Stock, sku: string, quantity: number): Promise<boolean> {
  const hold = await lock.tryHold(sku);
  if (hold === null) throw new InventoryBusy(`${sku} is being reserved, try again`);
  try {
    // The statements are cancelled when the hold is about to run out.
    const signal = AbortSignal.timeout(lock.left(hold));
    if ((await stock.available(sku, signal)) < quantity) return false;
    if (lock.left(hold) === 0) throw new InventoryBusy(`hold on ${sku} ran out`);
    await stock.reserve(sku, quantity, signal);
    return true;
  } finally {
    await lock.release(hold).catch((err: unknown) => console.warn('release of %s failed, left to its TTL', sku, err));
  }
}
