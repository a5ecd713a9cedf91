import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool, PoolClient } from 'pg';
import { z } from 'zod';

export const TransferOrder = z.object({
  id: z.string().uuid(),
  operator: z.string(),
  moves: z
    .array(
      z.object({
        from: z.string().regex(/^[A-Z]\d{2}-\d{3}$/),
        to: z.string().regex(/^[A-Z]\d{2}-\d{3}$/),
        sku: z.string(),
        quantity: z.number().int().positive(),
      }),
    )
    .min(1)
    .max(40),
});
export type TransferOrder = z.infer<typeof TransferOrder>;

export class BinBusyError extends Error {
  constructor(readonly bin: string) {
    super(`bin ${bin} is locked by another transfer`);
    this.name = 'BinBusyError';
  }
}

interface BinLock {
  key: string;
  token: string;
}

// An operator may take a while with the forklift, nobody else should get to the bins meanwhile.
const BIN_LOCK_MS = 15 * 60 * 1000;

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export class BinTransferService {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly confirm: (order: TransferOrder, opts: { timeoutMs: number }) => Promise<void>,
  ) {}

  private async lockBin(bin: string): Promise<BinLock> {
    const lock = { key: `wms:bin:${bin}`, token: randomUUID() };
    const res = await this.redis.set(lock.key, lock.token, 'PX', BIN_LOCK_MS, 'NX');
    if (res !== 'OK') throw new BinBusyError(bin);
    return lock;
  }

  /** Always in the same order, so two transfers cannot wait for each other. */
  async lockBins(bins: Iterable<string>): Promise<BinLock[]> {
    const sorted = [...new Set(bins)].sort();
    const locks: BinLock[] = [];
    for (const bin of sorted) {
      locks.push(await this.lockBin(bin));
    }
    return locks;
  }

  async unlockBins(locks: BinLock[]): Promise<void> {
    const results = await Promise.allSettled(
      locks.map((l) => this.redis.eval(RELEASE_SCRIPT, 1, l.key, l.token)),
    );
    for (const r of results) {
      if (r.status === 'rejected') console.warn('bin unlock failed', r.reason);
    }
  }

  async execute(input: unknown): Promise<{ moved: number }> {
    const order = TransferOrder.parse(input);
    const bins = order.moves.flatMap((m) => [m.from, m.to]);
    const locks = await this.lockBins(bins);
    try {
      await this.confirm(order, { timeoutMs: 10 * 60 * 1000 });
      return { moved: await this.book(order) };
    } finally {
      await this.unlockBins(locks);
    }
  }

  private async book(order: TransferOrder): Promise<number> {
    const db = await this.pool.connect();
    try {
      await db.query('BEGIN');
      const first = await db.query('INSERT INTO transfers (id, operator) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
        order.id,
        order.operator,
      ]);
      if (first.rowCount === 0) {
        await db.query('ROLLBACK');
        return 0;
      }
      let moved = 0;
      for (const m of order.moves) {
        await this.move(db, m);
        moved += m.quantity;
      }
      await db.query('COMMIT');
      return moved;
    } catch (err) {
      await db.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      db.release();
    }
  }

  private async move(db: PoolClient, m: TransferOrder['moves'][number]) {
    const out = await db.query(
      'UPDATE bin_stock SET quantity = quantity - $3 WHERE bin = $1 AND sku = $2 AND quantity >= $3',
      [m.from, m.sku, m.quantity],
    );
    if (out.rowCount !== 1) throw new Error(`not enough ${m.sku} in ${m.from}`);
    await db.query(
      `INSERT INTO bin_stock (bin, sku, quantity) VALUES ($1, $2, $3)
       ON CONFLICT (bin, sku) DO UPDATE SET quantity = bin_stock.quantity + EXCLUDED.quantity`,
      [m.to, m.sku, m.quantity],
    );
  }
}
