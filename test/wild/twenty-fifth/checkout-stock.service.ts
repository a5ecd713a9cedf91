import type Redlock from 'redlock5';

export interface OrderLine {
  sku: string;
  quantity: number;
}

export interface NewOrder {
  customerId: string;
  lines: OrderLine[];
}

/** Everything here runs on one connection, READ COMMITTED. */
export interface Tx {
  insertOrder(customerId: string): Promise<string>;
  insertLine(orderId: string, line: OrderLine): Promise<void>;
  /** SELECT on_hand FROM stock WHERE sku = $1 */
  readOnHand(sku: string): Promise<number>;
  /** UPDATE stock SET on_hand = $2 WHERE sku = $1 */
  writeOnHand(sku: string, onHand: number): Promise<void>;
  enqueueMail(template: string, orderId: string): Promise<void>;
}

export interface Database {
  /** BEGIN, work, COMMIT; ROLLBACK when the work throws. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

export class OutOfStockError extends Error {
  constructor(
    readonly sku: string,
    readonly onHand: number,
  ) {
    super(`only ${onHand} of ${sku} left`);
  }
}

export class CheckoutStockService {
  private static readonly LOCK_MS = 10_000;

  constructor(
    private readonly db: Database,
    private readonly redlock: Redlock,
  ) {}

  /** All or nothing: when one line cannot be served, nothing of the order is stored. */
  async place(order: NewOrder): Promise<string> {
    return this.db.transaction(async (tx) => {
      const orderId = await tx.insertOrder(order.customerId);
      for (const line of this.merged(order.lines)) {
        await this.take(tx, line);
        await tx.insertLine(orderId, line);
      }
      await tx.enqueueMail('order-confirmation', orderId);
      return orderId;
    });
  }

  /** Several web nodes sell the same product, so reading and writing the stock is one critical section. */
  private async take(tx: Tx, { sku, quantity }: OrderLine): Promise<void> {
    await this.redlock.using([`lock:stock:${sku}`], CheckoutStockService.LOCK_MS, async (signal) => {
      const onHand = await tx.readOnHand(sku);
      if (onHand < quantity) throw new OutOfStockError(sku, onHand);
      if (signal.aborted) throw signal.error ?? new Error(`lost the lock on ${sku}`);
      await tx.writeOnHand(sku, onHand - quantity);
    });
  }

  /** One line per product, always in the same order, so that two carts cannot block each other. */
  private merged(lines: OrderLine[]): OrderLine[] {
    const bySku = new Map<string, number>();
    for (const { sku, quantity } of lines) {
      bySku.set(sku, (bySku.get(sku) ?? 0) + quantity);
    }
    return [...bySku]
      .map(([sku, quantity]) => ({ sku, quantity }))
      .sort((a, b) => (a.sku < b.sku ? -1 : 1));
  }
}
