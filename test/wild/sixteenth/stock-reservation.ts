import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/** Reserves stock for a basket line. */
const TTL_MS = 10_000;
const BUDGET_MS = 7_000;
const WAIT_MS = 3_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface StockItem {
  sku: string;
  available: number;
  discontinued: boolean;
}

export interface StockStore {
  item(sku: string): Promise<StockItem | undefined>;
  setAvailable(sku: string, available: number, opts: { signal: AbortSignal }): Promise<void>;
  addReservation(
    sku: string,
    basketId: string,
    quantity: number,
    opts: { signal: AbortSignal },
  ): Promise<{ reservationId: string }>;
}

export class SkuBusyError extends Error {}
export class UnknownSkuError extends Error {}

export type Reservation =
  | { reserved: true; reservationId: string }
  | { reserved: false; available: number };

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function withSku<T>(
  redis: Redis,
  sku: string,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const key = `lock:stock:${sku}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + WAIT_MS;

  let sentAt = Date.now();
  while ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
    if (Date.now() >= giveUpAt) throw new SkuBusyError(`${sku} is being reserved, try again`);
    await sleep(50 + Math.floor(Math.random() * 100));
    sentAt = Date.now();
  }

  try {
    const left = sentAt + BUDGET_MS - Date.now();
    if (left <= 0) throw new SkuBusyError(`${sku} took too long`);
    return await fn(AbortSignal.timeout(left));
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
      console.warn(`${key} left to its TTL: ${err.message}`);
    });
  }
}

export async function reserve(
  redis: Redis,
  store: StockStore,
  sku: string,
  quantity: number,
  basketId: string,
): Promise<Reservation> {
  if (!Number.isInteger(quantity) || quantity <= 0) throw new RangeError('bad quantity');

  const item = await store.item(sku);
  if (!item || item.discontinued) throw new UnknownSkuError(sku);

  return withSku(redis, sku, async (signal): Promise<Reservation> => {
    if (item.available < quantity) {
      return { reserved: false, available: item.available };
    }
    await store.setAvailable(sku, item.available - quantity, { signal });
    const { reservationId } = await store.addReservation(sku, basketId, quantity, { signal });
    return { reserved: true, reservationId };
  });
}
