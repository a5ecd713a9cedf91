import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Pool } from "pg";

/** Thrown when the document stayed locked for the whole of `waitMs`. */
export class DocumentBusyError extends Error {
  override name = "DocumentBusyError";
  constructor(public readonly documentId: string) {
    super(`Document ${documentId} is being edited by another worker`);
  }
}

/** Thrown when a newer lock holder has claimed the row in the meantime. */
export class StaleFenceError extends Error {
  override name = "StaleFenceError";
  constructor(public readonly documentId: string, public readonly fence: number) {
    super(`Document ${documentId} is missing or was claimed past fence ${fence}`);
  }
}

export interface FencedDocumentOptions {
  /** How long the Redis lock lives, in milliseconds. Default 8000. */
  ttlMs?: number;
  /** How long to wait for a busy document, in milliseconds. Default 4000. */
  waitMs?: number;
  /** Pause between attempts, in milliseconds. Default 100 (plus jitter). */
  pollMs?: number;
}

export interface DocumentBody {
  [field: string]: unknown;
}

// Both keys carry the same hash tag, so the script also runs on a cluster.
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

/**
 * Read-modify-write on a JSON document.
 *
 * The Redis lock keeps workers from wasting each other's effort. Correctness comes from the
 * `fence` column: the row is claimed with our fencing number before it is read, and the
 * write goes through only while that number is still on the row.
 *
 *   CREATE TABLE documents (id text PRIMARY KEY, body jsonb NOT NULL, fence bigint NOT NULL DEFAULT 0);
 */
export class FencedDocumentStore {
  private readonly ttlMs: number;
  private readonly waitMs: number;
  private readonly pollMs: number;

  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    options: FencedDocumentOptions = {},
  ) {
    this.ttlMs = options.ttlMs ?? 8_000;
    this.waitMs = options.waitMs ?? 4_000;
    this.pollMs = options.pollMs ?? 100;
  }

  async update(id: string, mutate: (body: DocumentBody) => DocumentBody | Promise<DocumentBody>): Promise<DocumentBody> {
    const token = randomUUID();
    const fence = await this.acquire(id, token);
    try {
      const claimed = await this.pool.query<{ body: DocumentBody }>(
        "UPDATE documents SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING body",
        [id, fence],
      );
      if (claimed.rowCount !== 1) throw new StaleFenceError(id, fence);

      const next = await mutate(claimed.rows[0].body);

      const written = await this.pool.query(
        "UPDATE documents SET body = $3::jsonb WHERE id = $1 AND fence = $2",
        [id, fence, JSON.stringify(next)],
      );
      if (written.rowCount !== 1) throw new StaleFenceError(id, fence);
      return next;
    } finally {
      await this.redis.eval(RELEASE, 1, this.lockKey(id), token).catch((err: Error) => {
        console.warn(`could not release ${this.lockKey(id)}, it will expire: ${err.message}`);
      });
    }
  }

  private async acquire(id: string, token: string): Promise<number> {
    const giveUpAt = Date.now() + this.waitMs;
    for (;;) {
      const fence = Number(
        await this.redis.eval(ACQUIRE, 2, this.lockKey(id), this.fenceKey(id), token, this.ttlMs),
      );
      if (fence > 0) return fence;
      if (Date.now() >= giveUpAt) throw new DocumentBusyError(id);
      await sleep(this.pollMs + Math.random() * this.pollMs);
    }
  }

  private lockKey(id: string): string {
    return `{doc:${id}}:lock`;
  }

  /** The counter has no TTL: fences of one document must never go backwards. */
  private fenceKey(id: string): string {
    return `{doc:${id}}:fence`;
  }
}
