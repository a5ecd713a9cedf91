import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';

/**
 * Moves stock between two bins. Both bins are locked for the duration so that the
 * replenishment planner and other transfers keep off them while the worker is walking.
 */
const LOCK_MS = 20_000;
const EXTEND_EVERY_MS = 5_000;
/** Nothing is booked with less than this left on the lock. */
const RESERVE_MS = 6_000;

export interface Sql {
  query(text: string, params: unknown[]): Promise<{ rowCount: number }>;
}

export interface SqlPool {
  /** BEGIN ... COMMIT, or ROLLBACK when the callback throws; statements are capped at 2 s. */
  transaction<T>(fn: (tx: Sql) => Promise<T>): Promise<T>;
}

export interface Transfer {
  id: string;
  sku: string;
  fromBin: string;
  toBin: string;
  quantity: number;
}

export interface Scanner {
  /** Resolves once the worker has confirmed the move on the handheld, may take minutes. */
  confirmMove(transfer: Transfer, signal: AbortSignal): Promise<void>;
}

export class TransferRefusedError extends Error {}
export class BinLockLostError extends Error {}

export function createRedlock(urls = (process.env.LOCK_REDIS_URLS ?? '').split(',').filter(Boolean)): Redlock {
  const clients = urls.map((url) => new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 }));
  const redlock = new Redlock(clients, { driftFactor: 0.01, retryCount: 3, retryDelay: 250, retryJitter: 100 });
  redlock.on('error', (err) => {
    if (!(err instanceof ResourceLockedError)) console.warn('[transfer] lock node', err.message);
  });
  return redlock;
}

export class TransferService {
  constructor(
    private readonly redlock: Redlock,
    private readonly pool: SqlPool,
    private readonly scanner: Scanner,
  ) {}

  async execute(transfer: Transfer): Promise<void> {
    if (transfer.fromBin === transfer.toBin) throw new TransferRefusedError('source and target are the same bin');
    const bins = [transfer.fromBin, transfer.toBin].map((bin) => `lock:bin:${bin}`);

    await this.withBins(bins, async (signal, ensureHeld) => {
      await this.scanner.confirmMove(transfer, signal);
      await this.book(transfer, ensureHeld);
    });
    console.info(`[transfer] ${transfer.id}: ${transfer.quantity} x ${transfer.sku} moved`);
  }

  private async withBins<T>(
    bins: string[],
    work: (signal: AbortSignal, ensureHeld: () => void) => Promise<T>,
  ): Promise<T> {
    let lock = await this.redlock.acquire(bins, LOCK_MS);
    let validUntil = lock.expiration;
    let timer: NodeJS.Timeout | undefined;
    let extending: Promise<void> = Promise.resolve();
    let done = false;
    const lost = new AbortController();

    const extend = async () => {
      try {
        lock = await lock.extend(LOCK_MS);
        validUntil = lock.expiration;
      } catch (err) {
        console.warn('[transfer] bins not extended', bins, (err as Error).message);
        if (Date.now() > validUntil - RESERVE_MS) {
          lost.abort(new BinLockLostError(`lock on ${bins.join(', ')} lost`));
          return;
        }
      }
      if (!done) extendLater();
    };
    const extendLater = () => {
      timer = setTimeout(() => (extending = extend()), EXTEND_EVERY_MS);
    };
    const ensureHeld = () => {
      lost.signal.throwIfAborted();
      if (Date.now() > validUntil - RESERVE_MS) throw new BinLockLostError(`lock on ${bins.join(', ')} has run down`);
    };

    extendLater();
    try {
      return await work(lost.signal, ensureHeld);
    } finally {
      done = true;
      clearTimeout(timer);
      await extending;
      await lock.release().catch((err: Error) => console.warn('[transfer] bins not released', bins, err.message));
    }
  }

  private async book({ id, sku, fromBin, toBin, quantity }: Transfer, ensureHeld: () => void): Promise<void> {
    ensureHeld();
    await this.pool.transaction(async (tx) => {
      const entered = await tx.query(
        `INSERT INTO transfers (id, sku, quantity) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`,
        [id, sku, quantity],
      );
      if (entered.rowCount === 0) return; // booked by an earlier attempt

      const taken = await tx.query(
        `UPDATE bin_stock SET quantity = quantity - $3 WHERE bin = $1 AND sku = $2 AND quantity >= $3`,
        [fromBin, sku, quantity],
      );
      if (taken.rowCount !== 1) throw new TransferRefusedError(`not enough ${sku} in ${fromBin}`);

      await tx.query(
        `INSERT INTO bin_stock (bin, sku, quantity) VALUES ($1, $2, $3)
         ON CONFLICT (bin, sku) DO UPDATE SET quantity = bin_stock.quantity + EXCLUDED.quantity`,
        [toBin, sku, quantity],
      );
      ensureHeld(); // last look before COMMIT
    });
  }
}
