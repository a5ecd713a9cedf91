import Redis from 'ioredis';
import Redlock, { type Lock } from 'redlock5';
import { Gauge } from 'prom-client';

export interface TaxCodeRow {
  id: number;
  country: string;
  legacyCode: string;
}

export interface InvoiceLines {
  withoutTaxCode(afterId: number, limit: number): Promise<TaxCodeRow[]>;
  /** UPDATE invoice_lines SET tax_code = :code WHERE id = :id AND tax_code IS NULL */
  setTaxCode(id: number, code: string): Promise<void>;
}

export interface TaxCodeRules {
  resolve(country: string, legacyCode: string): Promise<string | null>;
}

export interface Log {
  info(o: object, m: string): void;
  warn(o: object, m: string): void;
  error(o: object, m: string): void;
}

const TTL_MS = 30_000;
const EXTEND_BELOW_MS = 15_000;
const PAGE = 200;

const position = new Gauge({ name: 'tax_backfill_position', help: 'Last line id looked at' });

export function createRedlock(urls: string[], log: Log): Redlock {
  const clients = urls.map((url) => {
    const client = new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 400 });
    client.on('error', (err) => log.warn({ err: err.message }, 'redis node'));
    return client;
  });
  const redlock = new Redlock(clients, { retryCount: 2, retryDelay: 300, retryJitter: 100 });
  redlock.on('error', () => {
    // reported by the callers
  });
  return redlock;
}

/**
 * Goes once through all invoice lines without a tax code. Takes hours; started by hand
 * (`yarn task backfill-tax-codes`) and possibly by two people at once.
 */
export class TaxCodeBackfill {
  constructor(
    private readonly redlock: Redlock,
    private readonly lines: InvoiceLines,
    private readonly rules: TaxCodeRules,
    private readonly log: Log,
  ) {}

  async run(): Promise<{ updated: number; unknown: number }> {
    const lock = await this.redlock.acquire(['backfill:tax-codes'], TTL_MS);
    try {
      return await this.walk(lock);
    } finally {
      await lock.release().catch((err: Error) => {
        this.log.warn({ err: err.message }, 'backfill lock left to expire');
      });
    }
  }

  private async walk(lock: Lock): Promise<{ updated: number; unknown: number }> {
    let lastId = 0;
    let updated = 0;
    let unknown = 0;

    for (;;) {
      await this.keep(lock);
      const page = await this.lines.withoutTaxCode(lastId, PAGE);
      if (page.length === 0) {
        this.log.info({ updated, unknown }, 'backfill finished');
        return { updated, unknown };
      }

      for (const row of page) {
        await this.keep(lock);
        const code = await this.rules.resolve(row.country, row.legacyCode);
        if (code === null) {
          unknown += 1;
        } else {
          await this.lines.setTaxCode(row.id, code);
          updated += 1;
        }
        lastId = row.id;
      }
      position.set(lastId);
    }
  }

  /** Prolongs the lock when half of it is gone; throws when it cannot be prolonged. */
  private async keep(lock: Lock): Promise<void> {
    const left = lock.expiration - Date.now();
    if (left < EXTEND_BELOW_MS) {
      await lock.extend(TTL_MS);
    }
  }
}

export async function main(deps: { lines: InvoiceLines; rules: TaxCodeRules; log: Log }): Promise<number> {
  const urls = (process.env.REDLOCK_URLS ?? '').split(',').filter(Boolean);
  const redlock = createRedlock(urls, deps.log);
  try {
    await new TaxCodeBackfill(redlock, deps.lines, deps.rules, deps.log).run();
    return 0;
  } catch (err) {
    deps.log.error({ err }, 'backfill stopped');
    return 1;
  } finally {
    await redlock.quit();
  }
}
