import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Supplier catalogue import. One import per supplier; the lock's value carries
 * the owner's token and the progress, which the admin page shows.
 */
const TTL_MS = 6 * 60_000;
const BUDGET_MS = 5 * 60_000;
const PAGE = 100;

// Value: <token of 36 characters>|<items done>
const OWNED = `
local v = redis.call('get', KEYS[1])
if not v or string.sub(v, 1, 36) ~= ARGV[1] then return 0 end
`;
const PROGRESS = `${OWNED}
redis.call('set', KEYS[1], ARGV[1] .. '|' .. ARGV[2])
return 1`;
const RELEASE = `${OWNED}
return redis.call('del', KEYS[1])`;

export interface SupplierApi {
  page(supplierId: string, offset: number, limit: number, opts: { signal: AbortSignal }): Promise<Item[]>;
}
export interface CatalogStore {
  /** Rejects, with nothing written, when the signal aborts. */
  upsert(supplierId: string, items: Item[], opts: { signal: AbortSignal }): Promise<void>;
}
export interface Item {
  sku: string;
  title: string;
  cents: number;
}

export class ImportRunningError extends Error {}
export class ImportLockLostError extends Error {}

export class CatalogImport {
  constructor(
    private readonly redis: Redis,
    private readonly api: SupplierApi,
    private readonly store: CatalogStore,
  ) {}

  async run(supplierId: string): Promise<number> {
    const key = this.key(supplierId);
    const token = randomUUID();
    const startedAt = Date.now();

    const reply = await this.redis.set(key, `${token}|0`, 'PX', TTL_MS, 'NX');
    if (reply !== 'OK') throw new ImportRunningError(`import of ${supplierId} is running`);

    try {
      const left = startedAt + BUDGET_MS - Date.now();
      if (left <= 0) throw new ImportLockLostError(supplierId);
      const signal = AbortSignal.timeout(left);

      let done = 0;
      for (;;) {
        const items = await this.api.page(supplierId, done, PAGE, { signal });
        if (items.length === 0) return done;

        signal.throwIfAborted();
        await this.store.upsert(supplierId, items, { signal });
        done += items.length;
        await this.report(key, token, done);
      }
    } finally {
      await this.redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
        console.warn('import lock not released', key, err.message);
      });
    }
  }

  /** Items done so far, or null when no import is running. */
  async progress(supplierId: string): Promise<number | null> {
    const value = await this.redis.get(this.key(supplierId));
    return value === null ? null : Number(value.split('|')[1]);
  }

  /** Also notices when the lock has gone to someone else. */
  private async report(key: string, token: string, done: number): Promise<void> {
    const kept = await this.redis.eval(PROGRESS, 1, key, token, done);
    if (kept !== 1) throw new ImportLockLostError(`${key} is not ours any more`);
  }

  private key(supplierId: string): string {
    return `lock:catalog-import:${supplierId}`;
  }
}
