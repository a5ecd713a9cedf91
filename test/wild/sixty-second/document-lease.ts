import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { Pool } from 'pg';

const pool = new Pool();
export const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('[redis]', err.message));

// The fence only ever grows, hence no TTL on it. Both keys share a slot.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LeaseTakenError extends Error {
  constructor(readonly resource: string) {
    super(`${resource} is being edited by someone else`);
  }
}

export class StaleLeaseError extends Error {
  constructor(readonly resource: string, readonly fence: number) {
    super(`lease #${fence} on ${resource} has been superseded`);
  }
}

export class Lease implements AsyncDisposable {
  readonly #timer: NodeJS.Timeout;
  readonly #expired = new AbortController();

  private constructor(
    readonly resource: string,
    /** Strictly increasing per resource; goes into every write. */
    readonly fence: number,
    private readonly token: string,
    remainingMs: number,
  ) {
    this.#timer = setTimeout(
      () => this.#expired.abort(new StaleLeaseError(resource, fence)),
      Math.max(0, remainingMs),
    );
  }

  /** Fires a little before the lease runs out. Leases are not renewed. */
  get signal(): AbortSignal {
    return this.#expired.signal;
  }

  static async acquire(resource: string, ttlMs = 30_000): Promise<Lease> {
    const token = randomUUID();
    const sentAt = performance.now();
    const fence = await redis.eval(ACQUIRE, {
      keys: [`lease:{${resource}}`, `fence:{${resource}}`],
      arguments: [token, String(ttlMs)],
    });
    if (typeof fence !== 'number' || fence === 0) throw new LeaseTakenError(resource);
    const remaining = ttlMs - (performance.now() - sentAt) - ttlMs * 0.1;
    return new Lease(resource, fence, token, remaining);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    try {
      await redis.eval(RELEASE, { keys: [`lease:{${this.resource}}`], arguments: [this.token] });
    } catch (err) {
      console.warn('lease on %s is left to expire: %s', this.resource, (err as Error).message);
    }
  }
}

/**
 * Reads the document and raises its fence in the same statement, so that from
 * here on nobody with an older lease can write, even before we do.
 */
async function openDocument(id: string, lease: Lease): Promise<string> {
  const res = await pool.query<{ body: string }>(
    'UPDATE documents SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING body',
    [id, lease.fence],
  );
  if (res.rowCount !== 1) throw new StaleLeaseError(lease.resource, lease.fence);
  return res.rows[0].body;
}

async function saveDocument(id: string, body: string, lease: Lease): Promise<void> {
  const res = await pool.query(
    'UPDATE documents SET body = $3, updated_at = now() WHERE id = $1 AND fence = $2',
    [id, lease.fence, body],
  );
  if (res.rowCount !== 1) throw new StaleLeaseError(lease.resource, lease.fence);
}

/** Rewrites a document through a slow transformation (translation, formatting, ...). */
export async function rewriteDocument(
  id: string,
  transform: (body: string, signal: AbortSignal) => Promise<string>,
): Promise<void> {
  await using lease = await Lease.acquire(`document:${id}`);
  const body = await openDocument(id, lease);
  const rewritten = await transform(body, lease.signal);
  lease.signal.throwIfAborted();
  await saveDocument(id, rewritten, lease);
}
