import { randomUUID } from 'node:crypto';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

interface Database {
  query(
    sql: string,
    params: unknown[],
    opts: { signal: AbortSignal },
  ): Promise<{ rows: Record<string, string>[]; rowCount: number }>;
}

// The lock and its fencing number come out of one step.
const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class Lease {
  readonly fence: number;
  /** Aborts a good while before the key expires. */
  readonly signal: AbortSignal;
  readonly #drop: () => Promise<unknown>;

  private constructor(fence: number, signal: AbortSignal, drop: () => Promise<unknown>) {
    this.fence = fence;
    this.signal = signal;
    this.#drop = drop;
  }

  static async take(client: Client, name: string, ttlMs: number): Promise<Lease | null> {
    const key = `lease:{${name}}`;
    const token = randomUUID();
    const sentAt = performance.now();
    const fence = await client.eval(TAKE, {
      keys: [key, `${key}:fence`],
      arguments: [token, String(ttlMs)],
    });
    if (typeof fence !== 'number') return null;

    const drop = () => client.eval(DROP, { keys: [key], arguments: [token] });
    const usable = Math.floor(ttlMs * 0.75 - (performance.now() - sentAt));
    if (usable <= 0) {
      await drop();
      return null;
    }
    return new Lease(fence, AbortSignal.timeout(usable), drop);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#drop();
    } catch (err) {
      console.warn('lease not dropped, it will expire', err);
    }
  }
}

/** Renders the catalogue page of a shop anew. False when another instance is at it. */
export async function rebuildCatalogue(client: Client, db: Database, shop: string): Promise<boolean> {
  await using lease = await Lease.take(client, `catalogue:${shop}`, 60_000);
  if (!lease) return false;

  const { signal } = lease;
  const { rows } = await db.query(
    'SELECT title, price FROM products WHERE shop = $1 ORDER BY title',
    [shop],
    { signal },
  );
  const body = rows.map((r) => `<li>${r.title}: ${r.price}</li>`).join('\n');

  signal.throwIfAborted();
  const { rowCount } = await db.query(
    `INSERT INTO catalogue_pages (shop, body, fence) VALUES ($1, $2, $3)
     ON CONFLICT (shop) DO UPDATE SET body = excluded.body, fence = excluded.fence
     WHERE catalogue_pages.fence < excluded.fence`,
    [shop, body, lease.fence],
    { signal },
  );
  if (rowCount !== 1) throw new Error(`catalogue of ${shop}: a later rebuild was there first`);
  return true;
}
