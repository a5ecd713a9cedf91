import type Redis from 'ioredis';
import Redlock from 'redlock5';

export interface Order {
  party: string;
  side: 'buy' | 'sell';
  mw: number;
  price: number;
}

export interface OrderBook {
  forQuarter(area: string, day: string, quarter: number): Promise<Order[]>;
}

export interface PositionLedger {
  /** Net megawatts per party so far. */
  load(area: string, day: string): Promise<Map<string, number>>;
  save(area: string, day: string, quarter: number, price: number, positions: Map<string, number>): Promise<void>;
  lastClearedQuarter(area: string, day: string): Promise<number>;
}

const LOCK_MS = 20_000;

export function createRedlock(client: Redis): Redlock {
  const redlock = new Redlock([client], {
    retryCount: 5,
    retryDelay: 300,
    retryJitter: 150,
    automaticExtensionThreshold: 5_000,
  });
  redlock.on('error', (err) => console.warn('redlock', err.message));
  return redlock;
}

function clear(orders: Order[]): { price: number; fills: Array<[party: string, mw: number]> } {
  const buys = orders.filter((o) => o.side === 'buy').sort((a, b) => b.price - a.price);
  const sells = orders.filter((o) => o.side === 'sell').sort((a, b) => a.price - b.price);
  const left = new Map(orders.map((o) => [o, o.mw]));
  const fills: Array<[string, number]> = [];
  let price = 0;

  for (let b = 0, s = 0; b < buys.length && s < sells.length && buys[b].price >= sells[s].price; ) {
    const mw = Math.min(left.get(buys[b])!, left.get(sells[s])!);
    price = (buys[b].price + sells[s].price) / 2;
    fills.push([buys[b].party, mw], [sells[s].party, -mw]);
    left.set(buys[b], left.get(buys[b])! - mw);
    left.set(sells[s], left.get(sells[s])! - mw);
    if (left.get(buys[b]) === 0) b++;
    if (left.get(sells[s]) === 0) s++;
  }
  return { price, fills };
}

/**
 * Clears the 96 quarter-hours of a delivery day after gate closure. May take some
 * minutes on a busy day; redlock keeps extending the lock meanwhile. Rejects with
 * redlock's ExecutionError when another gateway is at it.
 */
export async function clearDayAhead(
  redlock: Redlock,
  area: string,
  day: string,
  book: OrderBook,
  ledger: PositionLedger,
): Promise<void> {
  await redlock.using([`clearing:${area}:${day}`], LOCK_MS, async (signal) => {
    const positions = await ledger.load(area, day);
    const from = (await ledger.lastClearedQuarter(area, day)) + 1;
    if (signal.aborted) throw signal.error ?? new Error('lock lost');

    for (let quarter = from; quarter < 96; quarter++) {
      const orders = await book.forQuarter(area, day, quarter);
      const { price, fills } = clear(orders);
      for (const [party, mw] of fills) {
        positions.set(party, (positions.get(party) ?? 0) + mw);
      }
      await ledger.save(area, day, quarter, price, positions);
    }
  });
}
