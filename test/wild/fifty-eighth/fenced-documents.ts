// Editing of shared documents: one editor at a time, and the database has the last word.
//
//   CREATE TABLE documents (id text PRIMARY KEY, body jsonb NOT NULL, fence bigint NOT NULL DEFAULT 0);
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { Pool } from 'pg';

// Takes the lock and draws the next fencing number in one step. {…} keeps both keys in one cluster slot.
const ACQUIRE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return false`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class DocumentBusyError extends Error {}
export class FencedOffError extends Error {}

interface Held {
  key: string;
  token: string;
  fence: number;
}

export class DocumentStore {
  constructor(
    private readonly redis: Redis,
    private readonly db: Pool,
    private readonly ttlMs = 10_000,
  ) {}

  private async acquire(id: string): Promise<Held> {
    const key = `{doc:${id}}:lock`;
    const token = randomUUID();
    const fence = (await this.redis.eval(ACQUIRE, 2, key, `{doc:${id}}:fence`, token, this.ttlMs)) as number | null;
    if (fence === null) throw new DocumentBusyError(`${id} is being edited`);
    return { key, token, fence };
  }

  private async release({ key, token }: Held): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      console.warn('release failed, waiting for expiry', key, err);
    }
  }

  /**
   * Read, change, write back. The lock only keeps editors from treading on each other; correctness comes from
   * `fence`: reading claims the row for our number, and the write goes through only if nobody claimed it since.
   * `change` may therefore take longer than the ttl - it then fails with FencedOffError instead of overwriting.
   */
  async edit<B>(id: string, change: (body: B) => Promise<B>): Promise<B> {
    const held = await this.acquire(id);
    try {
      // Strictly greater: after a failover that lost the counter the same number could be drawn twice, and a
      // counter that starts again below the stored fence is refused until it has caught up.
      const claimed = await this.db.query<{ body: B }>(
        'UPDATE documents SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING body',
        [id, held.fence],
      );
      const row = claimed.rows[0];
      if (!row) throw new FencedOffError(`${id}: unknown document or newer editor than ${held.fence}`);

      const body = await change(row.body);

      const written = await this.db.query('UPDATE documents SET body = $3 WHERE id = $1 AND fence = $2', [
        id,
        held.fence,
        JSON.stringify(body),
      ]);
      if (written.rowCount !== 1) throw new FencedOffError(`${id}: somebody else took over`);
      return body;
    } finally {
      await this.release(held);
    }
  }
}

export const documents = new DocumentStore(
  new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'),
  new Pool({ connectionString: process.env.DATABASE_URL }),
);
