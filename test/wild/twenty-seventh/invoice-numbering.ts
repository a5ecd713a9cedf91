import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface InvoiceDraft {
  series: string;
  customerId: string;
  totalCents: number;
}

export interface InvoiceStore {
  lastNumber(series: string): Promise<number>;
  insert(row: InvoiceDraft & { number: number }): Promise<void>;
}

export interface Logger {
  info(msg: string, meta?: Record<string, unknown>): void;
  warn(msg: string, meta?: Record<string, unknown>): void;
}

export class SeriesBusyError extends Error {
  constructor(readonly series: string) {
    super(`invoice series ${series} is busy, try again`);
  }
}

const LOCK_MS = 15_000;
const WAIT_MS = 5_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

/**
 * The tax office wants gapless numbers per series, so a database sequence is not
 * an option. Two short statements run under the lock.
 */
export class InvoiceNumberService {
  constructor(private readonly deps: { redis: Redis; store: InvoiceStore; log: Logger }) {}

  async issue(draft: InvoiceDraft): Promise<number> {
    return this.withSeriesLock(draft.series, async () => {
      const next = (await this.deps.store.lastNumber(draft.series)) + 1;
      await this.deps.store.insert({ ...draft, number: next });
      this.deps.log.info('invoice issued', { series: draft.series, number: next });
      return next;
    });
  }

  private async withSeriesLock<T>(series: string, fn: () => Promise<T>): Promise<T> {
    const { redis, log } = this.deps;
    const key = `billing:invoice-series:${series}`;
    const token = randomUUID();
    const giveUpAt = Date.now() + WAIT_MS;

    while ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
      if (Date.now() >= giveUpAt) throw new SeriesBusyError(series);
      await sleep(40 + Math.random() * 80);
    }

    try {
      return await fn();
    } finally {
      await redis.eval(UNLOCK, 1, key, token).catch((err: Error) => {
        // the invoice is stored at this point; the lock goes away by itself
        log.warn('could not unlock series', { series, error: err.message });
      });
    }
  }
}
