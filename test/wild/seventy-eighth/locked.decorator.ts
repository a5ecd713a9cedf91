import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';
import { db } from '../db';

export const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
redis.on('error', (err) => console.error('redis:', err.message));

const COMPARE_AND_DELETE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class ResourceLockedError extends Error {
  readonly statusCode = 423;
  constructor(readonly resource: string) {
    super(`${resource} is locked, try again later`);
  }
}

export interface LockedOptions<A extends unknown[]> {
  /** name of the lock, from the arguments of the method */
  key: (...args: A) => string;
  /** must be well above the timeout of the method itself */
  ttlMs: number;
  waitMs?: number;
}

async function acquire(key: string, token: string, ttlMs: number, waitMs: number) {
  const until = Date.now() + waitMs;
  do {
    const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
    if (reply === 'OK') return;
    await delay(100 + Math.floor(Math.random() * 100));
  } while (Date.now() < until);
  throw new ResourceLockedError(key);
}

async function release(key: string, token: string) {
  try {
    await redis.eval(COMPARE_AND_DELETE, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn(`could not release ${key}`, err);
  }
}

/** TC39 decorator, TypeScript 5 without experimentalDecorators */
export function locked<This, A extends unknown[], R>({ key, ttlMs, waitMs = 5_000 }: LockedOptions<A>) {
  return (
    method: (this: This, ...args: A) => Promise<R>,
    _context: ClassMethodDecoratorContext,
  ) => {
    return async function (this: This, ...args: A): Promise<R> {
      const lockKey = `locked:${key(...args)}`;
      const token = randomUUID();
      await acquire(lockKey, token, ttlMs, waitMs);
      try {
        return method.apply(this, args);
      } finally {
        await release(lockKey, token);
      }
    };
  };
}

export class InvoiceNumbers {
  /** Gapless numbers per company and year, the tax office insists. 10 s timeout in db.withTimeout. */
  @locked({ key: (companyId: string) => `invoice-no:${companyId}`, ttlMs: 60_000 })
  async assign(companyId: string, invoiceId: string): Promise<number> {
    return db.withTimeout(10_000, async (q) => {
      const year = new Date().getUTCFullYear();
      const { rows } = await q(
        'select coalesce(max(number), 0) as last from invoices where company_id = $1 and year = $2',
        [companyId, year],
      );
      const next = Number(rows[0].last) + 1;
      await q('update invoices set number = $2, year = $3 where id = $1', [invoiceId, next, year]);
      return next;
    });
  }
}
