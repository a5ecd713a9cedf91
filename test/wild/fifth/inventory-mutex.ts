import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
`;

interface Entry {
  token: string;
  depth: number;
  endsAt: number;
}

/**
 * Reentrant mutex: `receive` calls `recount`, both lock the bin. Ask for it with
 * InventoryMutex.instance().
 */
export class InventoryMutex {
  private static self?: InventoryMutex;

  static instance(): InventoryMutex {
    this.self ??= new InventoryMutex(new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'));
    return this.self;
  }

  private readonly entries = new Map<string, Entry>();

  private constructor(
    private readonly redis: Redis,
    private readonly ttlMs = 30_000,
    private readonly reserveMs = 3_000,
  ) {
    redis.on('error', (err) => console.error('inventory mutex:', err.message));
  }

  async lock(bin: string): Promise<boolean> {
    const entry = this.entries.get(bin);
    if (entry) {
      if (performance.now() >= entry.endsAt) return false;
      entry.depth++;
      return true;
    }

    const token = randomUUID();
    const asked = performance.now();
    const reply = await this.redis.set(`bin:${bin}`, token, 'PX', this.ttlMs, 'NX');
    if (reply !== 'OK') return false;
    this.entries.set(bin, { token, depth: 1, endsAt: asked + this.ttlMs - this.reserveMs });
    return true;
  }

  async unlock(bin: string): Promise<void> {
    const entry = this.entries.get(bin);
    if (!entry) return;
    entry.depth--;
    if (entry.depth > 0) return;
    this.entries.delete(bin);
    try {
      await this.redis.eval(UNLOCK, 1, `bin:${bin}`, entry.token);
    } catch (err) {
      console.warn(`bin ${bin} stays locked until it expires:`, (err as Error).message);
    }
  }

  /** Throws unless the lock on the bin is good for `needMs` more. */
  check(bin: string, needMs: number): void {
    const entry = this.entries.get(bin);
    if (!entry || performance.now() + needMs > entry.endsAt) throw new Error(`bin ${bin}: lock is over`);
  }
}

export interface Bins {
  quantity(bin: string, o: { timeoutMs: number }): Promise<number>;
  setQuantity(bin: string, qty: number, o: { timeoutMs: number }): Promise<void>;
}

const DB = { timeoutMs: 2_000 };

async function locked<T>(bin: string, fn: (m: InventoryMutex) => Promise<T>): Promise<T> {
  const mutex = InventoryMutex.instance();
  if (!(await mutex.lock(bin))) throw Object.assign(new Error(`bin ${bin} is locked`), { status: 423 });
  try {
    return await fn(mutex);
  } finally {
    await mutex.unlock(bin);
  }
}

export const recount = (bins: Bins, bin: string, counted: number) =>
  locked(bin, async (m) => {
    m.check(bin, DB.timeoutMs);
    await bins.setQuantity(bin, counted, DB);
  });

// POST /bins/:bin/receive
export const receive = (bins: Bins, bin: string, pieces: number) =>
  locked(bin, async () => {
    const before = await bins.quantity(bin, DB);
    await recount(bins, bin, before + pieces);
    return before + pieces;
  });
