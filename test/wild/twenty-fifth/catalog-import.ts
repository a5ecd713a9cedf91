import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Redis } from 'ioredis';

export interface StagingArea {
  clear(supplier: string): Promise<void>;
  append(supplier: string, rows: CatalogRow[]): Promise<void>;
  /** Replaces the supplier's live catalog by what is in staging now. */
  publish(supplier: string): Promise<void>;
}

export interface CatalogRow {
  sku: string;
  title: string;
  priceCents: number;
}

export type ImportOutcome = { status: 'done'; rows: number } | { status: 'already-running' };

export class ImportTimeout extends Error {
  constructor(ms: number) {
    super(`import did not finish within ${ms} ms`);
    this.name = 'ImportTimeout';
  }
}

function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ImportTimeout(ms)), ms);
  });
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer));
}

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export class CatalogImporter {
  private static readonly LOCK_TTL_MS = 10 * 60_000;
  // Leaves two minutes of the lock for the clean-up, so it never runs out under us.
  private static readonly DEADLINE_MS = 8 * 60_000;
  private static readonly BATCH = 500;

  constructor(
    private readonly redis: Redis,
    private readonly staging: StagingArea,
  ) {}

  async import(supplier: string, file: string): Promise<ImportOutcome> {
    const key = `import:catalog:${supplier}`;
    const token = randomUUID();

    const locked = await this.redis.set(key, token, 'PX', CatalogImporter.LOCK_TTL_MS, 'NX');
    if (locked !== 'OK') return { status: 'already-running' };

    try {
      const rows = await withDeadline(this.load(supplier, file), CatalogImporter.DEADLINE_MS);
      return { status: 'done', rows };
    } finally {
      await this.redis.eval(RELEASE_SCRIPT, 1, key, token);
    }
  }

  private async load(supplier: string, file: string): Promise<number> {
    await this.staging.clear(supplier);

    let count = 0;
    let batch: CatalogRow[] = [];
    const lines = createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Infinity });
    for await (const line of lines) {
      if (!line.trim()) continue;
      batch.push(this.parse(line));
      if (batch.length === CatalogImporter.BATCH) {
        await this.staging.append(supplier, batch);
        count += batch.length;
        batch = [];
      }
    }
    if (batch.length > 0) await this.staging.append(supplier, batch);
    count += batch.length;

    await this.staging.publish(supplier);
    return count;
  }

  private parse(line: string): CatalogRow {
    const [sku, title, price] = line.split(';');
    const priceCents = Math.round(Number(price) * 100);
    if (!sku || !Number.isFinite(priceCents)) throw new Error(`bad line: ${line}`);
    return { sku, title: title ?? '', priceCents };
  }
}
