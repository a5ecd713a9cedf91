import { randomUUID } from 'node:crypto';
import { DelayedError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import type { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'catalog-import' });

const MAX_PER_TENANT = 2;
const SLOT_MS = 30_000;
const BEAT_MS = 8_000;

// One member per running import, scored with the moment it lapses (server time).
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

interface ImportJob {
  tenantId: string;
  importId: string;
}

class Slot {
  readonly id = randomUUID();
  private validUntil = 0;
  private gone = false;
  private timer?: NodeJS.Timeout;

  constructor(private readonly redis: Redis, private readonly key: string) {}

  async take(): Promise<boolean> {
    const asked = performance.now();
    const got = await this.redis.eval(TAKE, 1, this.key, this.id, MAX_PER_TENANT, SLOT_MS);
    if (got !== 1) return false;
    this.validUntil = asked + SLOT_MS;
    this.timer = setInterval(() => void this.keep(), BEAT_MS);
    return true;
  }

  private async keep() {
    const asked = performance.now();
    try {
      const ok = await this.redis.eval(KEEP, 1, this.key, this.id, SLOT_MS);
      if (ok === 1) this.validUntil = asked + SLOT_MS;
      else this.gone = true;
    } catch (err) {
      log.warn({ err, key: this.key }, 'slot heartbeat failed');
    }
  }

  ensure() {
    if (this.gone || performance.now() > this.validUntil - 6_000) {
      throw new Error(`import slot ${this.key} lost`);
    }
  }

  async give() {
    clearInterval(this.timer);
    await this.redis
      .zrem(this.key, this.id)
      .catch((err) => log.warn({ err, key: this.key }, 'slot not returned, will lapse'));
  }
}

export function startImportWorker(redis: Redis, pool: Pool) {
  return new Worker<ImportJob>(
    'catalog-import',
    async (job: Job<ImportJob>, token?: string) => {
      const slot = new Slot(redis, `import-slots:${job.data.tenantId}`);
      if (!(await slot.take())) {
        await job.moveToDelayed(Date.now() + 15_000, token);
        throw new DelayedError();
      }
      try {
        return await importRows(pool, job, slot);
      } finally {
        await slot.give();
      }
    },
    { connection: redis.duplicate({ maxRetriesPerRequest: null }), concurrency: 10 },
  );
}

/**
 * Rows are upserts keyed on (tenant, sku), so a job that is tried again does no harm.
 * import_rows is unique on (import_id, sku) and does not change once the job is queued.
 */
async function importRows(pool: Pool, job: Job<ImportJob>, slot: Slot) {
  const { tenantId, importId } = job.data;
  let done = 0;
  for (;;) {
    slot.ensure();
    const { rowCount } = await pool.query({
      text: `WITH chunk AS (
               SELECT sku, title, price_cents FROM import_rows
                WHERE import_id = $1 ORDER BY line LIMIT 500 OFFSET $3
             )
             INSERT INTO products (tenant_id, sku, title, price_cents, import_id)
             SELECT $2, sku, title, price_cents, $1 FROM chunk
             ON CONFLICT (tenant_id, sku) DO UPDATE
               SET title = EXCLUDED.title, price_cents = EXCLUDED.price_cents, import_id = EXCLUDED.import_id`,
      values: [importId, tenantId, done],
    });
    done += rowCount ?? 0;
    await job.updateProgress({ done });
    if ((rowCount ?? 0) < 500) return { done };
  }
}
