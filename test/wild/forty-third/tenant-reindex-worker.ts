import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import { Client as SearchClient } from '@elastic/elasticsearch';
import { Pool } from 'pg';

const STREAM = 'reindex:requests';
const GROUP = 'reindexers';
const LEASE_MS = 60_000;
const RENEW_MS = 15_000;
const GUARD_MS = 25_000; // one batch: query up to 5s (plus 2s to connect), bulk request up to 15s

const redis = new Redis(process.env.REDIS_URL!);
const blocking = redis.duplicate();
const search = new SearchClient({ node: process.env.ELASTIC_URL!, requestTimeout: 15_000, maxRetries: 0 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 2_000, query_timeout: 5_000 });

/**
 * A disposable lease on one tenant. Use it with `await using`; it renews itself in the
 * background until it is disposed of.
 */
class TenantLease implements AsyncDisposable {
  readonly #timer: NodeJS.Timeout;
  #lost = false;

  private constructor(
    private readonly key: string,
    private readonly token: string,
    private validUntil: number,
  ) {
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS);
  }

  static async tryAcquire(tenantId: string): Promise<TenantLease | null> {
    const key = `reindex:lease:${tenantId}`;
    const token = randomUUID();
    const start = performance.now();
    const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
    return reply === 'OK' ? new TenantLease(key, token, start + LEASE_MS - GUARD_MS) : null;
  }

  /** Throws when the lease is gone or too short for another batch. */
  check(): void {
    if (this.#lost || performance.now() >= this.validUntil) throw new Error(`lost lease ${this.key}`);
  }

  async #renew(): Promise<void> {
    const start = performance.now();
    const script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
    try {
      const result = await redis.eval(script, 1, this.key, this.token, LEASE_MS);
      if (result === 1) this.validUntil = start + LEASE_MS - GUARD_MS;
      else this.#lost = true;
    } catch (error) {
      console.warn('Lease renewal failed', this.key, error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    const script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
    await redis.eval(script, 1, this.key, this.token).catch((error) => console.warn('Release failed', this.key, error));
  }
}

async function reindex(entryId: string, tenantId: string): Promise<void> {
  await using lease = await TenantLease.tryAcquire(tenantId);
  if (!lease) return; // Stays pending; XAUTOCLAIM brings it back.

  let after = '0';
  for (;;) {
    lease.check();
    const { rows } = await pool.query('SELECT id, body FROM documents WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT 500', [tenantId, after]);
    if (rows.length === 0) break;
    const result = await search.bulk({
      operations: rows.flatMap((row) => [{ index: { _index: `docs-${tenantId}`, _id: row.id } }, row.body]),
    });
    if (result.errors) throw new Error(`Bulk request for tenant ${tenantId} had errors`);
    after = rows[rows.length - 1].id;
  }
  await redis.xack(STREAM, GROUP, entryId);
}

export async function run(consumer: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const [, reclaimed] = (await redis.xautoclaim(STREAM, GROUP, consumer, 120_000, '0', 'COUNT', 5)) as [string, [string, string[]][]];
    const fresh = (await blocking.xreadgroup('GROUP', GROUP, consumer, 'COUNT', 1, 'BLOCK', 5000, 'STREAMS', STREAM, '>')) as
      | [string, [string, string[]][]][]
      | null;
    for (const [id, fields] of [...reclaimed, ...(fresh?.[0]?.[1] ?? [])]) {
      if (!fields) continue;
      await reindex(id, fields[fields.indexOf('tenantId') + 1]).catch((error) => console.error('Reindex failed', id, error));
    }
  }
}
