import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const END = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const SAVE = "redis.call('HSET', KEYS[1], 'stock', ARGV[1]) return 1";

/** What a class of errors is exported for is to be caught. */
export class StockError extends Error {}

export interface StockLease {
  readonly item: string;
  readonly token: string;
}

export async function openLease(item: string, ttlMs = 10_000): Promise<StockLease | null> {
  const token = randomUUID();
  return (await redis.set(`{${item}}:lease`, token, 'PX', ttlMs, 'NX')) === 'OK' ? { item, token } : null;
}

export async function closeLease({ item, token }: StockLease): Promise<void> {
  await redis.eval(END, 1, `{${item}}:lease`, token);
}

/** Works under a lease, and is no lock. */
export async function saveStock({ item }: StockLease, stock: number): Promise<void> {
  if ((await redis.eval(SAVE, 1, `{${item}}:stock`, String(stock))) !== 1) throw new StockError(item);
}
