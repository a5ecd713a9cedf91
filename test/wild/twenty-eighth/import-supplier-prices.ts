import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

/**
 * Imports a supplier's price list: empty the staging table, load all pages into it, then
 * publish it. Started by the schedule and by purchasing staff from the back office.
 */

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

export class AlreadyRunningError extends Error {
  constructor(key: string) {
    super(`${key} is already running`);
    this.name = 'AlreadyRunningError';
  }
}

interface HasRedis {
  readonly redis: Redis;
}

interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlSeconds: number;
}

/** Method decorator: across all instances, at most one call per key runs at a time. */
export function Exclusive<A extends unknown[], R>({ key, ttlSeconds }: ExclusiveOptions<A>) {
  return function <This extends HasRedis>(
    method: (this: This, ...args: A) => Promise<R>,
    context: ClassMethodDecoratorContext<This>,
  ) {
    const name = String(context.name);

    return async function (this: This, ...args: A): Promise<R> {
      const lockKey = `exclusive:${name}:${key(...args)}`;
      const token = crypto.randomUUID();

      const reply = await this.redis.set(lockKey, token, { nx: true, ex: ttlSeconds });
      if (reply !== 'OK') throw new AlreadyRunningError(lockKey);

      try {
        return await method.apply(this, args);
      } finally {
        try {
          await this.redis.eval(RELEASE, [lockKey], [token]);
        } catch (err) {
          console.warn(`${lockKey} was not released, it will expire`, err);
        }
      }
    };
  };
}

export interface PriceRow {
  sku: string;
  priceCents: number;
}

export interface SupplierApi {
  /** 500 rows a page, one request per second. The large suppliers list 200,000 articles. */
  page(supplierId: string, cursor: string | null): Promise<{ rows: PriceRow[]; next: string | null }>;
}

export interface PriceTables {
  truncateStaging(supplierId: string): Promise<void>;
  insertStaging(supplierId: string, rows: PriceRow[]): Promise<void>;
  publishStaging(supplierId: string): Promise<void>;
}

export class SupplierPriceImport {
  constructor(
    private readonly api: SupplierApi,
    private readonly tables: PriceTables,
    readonly redis: Redis = Redis.fromEnv(),
  ) {}

  @Exclusive<[supplierId: string], number>({ key: (supplierId) => supplierId, ttlSeconds: 30 })
  async run(supplierId: string): Promise<number> {
    await this.tables.truncateStaging(supplierId);

    let imported = 0;
    let cursor: string | null = null;
    do {
      const { rows, next } = await this.api.page(supplierId, cursor);
      await this.tables.insertStaging(supplierId, rows);
      imported += rows.length;
      cursor = next;
      if (imported % 10_000 === 0) console.info(`prices ${supplierId}: ${imported} rows so far`);
      if (cursor) await sleep(1_000);
    } while (cursor);

    await this.tables.publishStaging(supplierId);
    console.info(`prices ${supplierId}: ${imported} rows published`);
    return imported;
  }
}
