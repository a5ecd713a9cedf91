import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { pipeline } from 'node:stream/promises';
import type { FastifyInstance } from 'fastify';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import QueryStream from 'pg-query-stream';
import { stringify } from 'csv-stringify';

const SLOT_MS = 20_000;
const SAFETY_MS = 2_000;

// Sorted set: member = slot id, score = when the slot runs out (ms, clock of Redis).
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

export class ExportSlots {
  constructor(private readonly redis: Redis, private readonly limit: number) {}

  async withSlot<T>(tenant: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    const key = `export:slots:${tenant}`;
    const id = randomUUID();
    const ctl = new AbortController();
    let until = 0;
    let watch: NodeJS.Timeout | undefined;
    let beat: NodeJS.Timeout | undefined;
    try {
      const asked = performance.now();
      if ((await this.redis.eval(TAKE, 1, key, id, SLOT_MS, this.limit)) !== 1) return null;
      until = asked + SLOT_MS - SAFETY_MS;

      beat = setInterval(async () => {
        const at = performance.now();
        try {
          if ((await this.redis.eval(KEEP, 1, key, id, SLOT_MS)) === 1) until = Math.max(until, at + SLOT_MS - SAFETY_MS);
          else ctl.abort(new Error('export slot lost'));
        } catch {
          // the watch below decides when it has gone on for too long
        }
      }, SLOT_MS / 4);
      watch = setInterval(() => {
        if (performance.now() > until) ctl.abort(new Error('export slot ran out'));
      }, 250);

      if (performance.now() > until) ctl.abort(new Error('export slot ran out'));
      return await fn(ctl.signal);
    } finally {
      clearInterval(beat);
      clearInterval(watch);
      // also after a failed TAKE, whose reply may have been lost on the way
      await this.redis.zrem(key, id).catch(() => undefined);
    }
  }
}

export function registerExports(app: FastifyInstance, deps: { redis: Redis; pool: Pool }) {
  const slots = new ExportSlots(deps.redis, Number(process.env.EXPORTS_PER_TENANT ?? 3));

  app.get<{ Params: { tenant: string }; Querystring: { since: string } }>(
    '/tenants/:tenant/orders.csv',
    async (req, reply) => {
      const { tenant } = req.params;
      const done = await slots.withSlot(tenant, async (signal) => {
        signal.throwIfAborted();
        const db = await deps.pool.connect();
        let failed = true;
        try {
          const rows = db.query(
            new QueryStream(
              'SELECT id, placed_at, total_cents, status FROM orders WHERE tenant_id = $1 AND placed_at >= $2 ORDER BY id',
              [tenant, req.query.since],
            ),
          );
          reply.hijack();
          reply.raw.writeHead(200, {
            'content-type': 'text/csv; charset=utf-8',
            'content-disposition': `attachment; filename="orders-${encodeURIComponent(tenant)}.csv"`,
          });
          await pipeline(rows, stringify({ header: true }), reply.raw, { signal });
          failed = false;
          return true;
        } catch (err) {
          req.log.warn({ err, tenant }, 'export cut short');
          if (!reply.raw.headersSent) throw err;
          reply.raw.destroy();
          return true;
        } finally {
          db.release(failed);
        }
      });
      if (done === null) {
        return reply.code(429).header('retry-after', '15').send({ error: 'too many exports are running' });
      }
    },
  );
}
