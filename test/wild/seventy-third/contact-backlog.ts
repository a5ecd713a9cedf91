import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { tx, one } from '../db';
import { fetchContacts } from './crm';

type Client = ReturnType<typeof createClient>;

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

class Lease implements AsyncDisposable {
  private constructor(
    private readonly redis: Client,
    private readonly key: string,
    private readonly token: string,
    readonly signal: AbortSignal,
  ) {}

  static async take(redis: Client, key: string, ttlMs: number): Promise<Lease | null> {
    const token = randomUUID();
    const before = performance.now();
    if ((await redis.set(key, token, { NX: true, PX: ttlMs })) !== 'OK') return null;
    // stop well before the key goes away, counting the round trip as used up
    const left = Math.floor(ttlMs * 0.75 - (performance.now() - before));
    const lease = new Lease(redis, key, token, left > 0 ? AbortSignal.timeout(left) : AbortSignal.abort());
    return lease;
  }

  async [Symbol.asyncDispose]() {
    try {
      await this.redis.eval(UNLOCK, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn(`could not unlock ${this.key}, leaving it to expire`, err);
    }
  }
}

/**
 * Called every minute per tenant. Works off as much of the CRM's change feed as
 * fits into the lease, then stops; the next call goes on from the cursor.
 */
export async function syncContacts(redis: Client, tenant: string): Promise<number> {
  await using lease = await Lease.take(redis, `contacts:sync:${tenant}`, 60_000);
  if (!lease) return 0;

  let done = 0;
  while (!lease.signal.aborted) {
    const { pos } = await one<{ pos: string }>('SELECT pos FROM sync_cursor WHERE tenant = $1', [tenant]);

    let page;
    try {
      page = await fetchContacts(tenant, { after: pos, limit: 200, signal: lease.signal });
    } catch (err) {
      if (lease.signal.aborted) break;
      throw err;
    }
    if (page.items.length === 0) break;

    const moved = await tx(async (q) => {
      const step = await q('UPDATE sync_cursor SET pos = $3 WHERE tenant = $1 AND pos = $2', [
        tenant,
        pos,
        page.next,
      ]);
      if (step.rowCount !== 1) return false;
      for (const c of page.items) {
        await q(
          `INSERT INTO contacts (tenant, external_id, rev, data) VALUES ($1, $2, $3, $4)
           ON CONFLICT (tenant, external_id) DO UPDATE
              SET rev = excluded.rev, data = excluded.data
            WHERE contacts.rev < excluded.rev`,
          [tenant, c.id, c.rev, c],
        );
      }
      return true;
    });
    if (!moved) break; // somebody else is further along
    done += page.items.length;
  }
  return done;
}
