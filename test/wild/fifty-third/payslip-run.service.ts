import type { Middleware } from 'koa';
import { nanoid } from 'nanoid';
import type { Pool } from 'pg';
import pino from 'pino';
import type { RedisClientType } from 'redis';

const log = pino({ name: 'payslips' });

export class AlreadyRunningError extends Error {
  readonly status = 409;
  readonly expose = true;
  constructor(key: string) {
    super(`${key} is already running`);
    this.name = 'AlreadyRunningError';
  }
}

interface HasRedis {
  readonly redis: RedisClientType;
}

const RELEASE_SCRIPT =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

export function Exclusive<A extends unknown[]>(keyOf: (...args: A) => string, ttlMs: number) {
  return function <R>(
    _target: HasRedis,
    method: string,
    descriptor: TypedPropertyDescriptor<(...args: A) => Promise<R>>,
  ): void {
    const original = descriptor.value!;
    descriptor.value = async function (this: HasRedis, ...args: A): Promise<R> {
      const key = `exclusive:${method}:${keyOf(...args)}`;
      const token = nanoid(24);
      const reply = await this.redis.set(key, token, { NX: true, PX: ttlMs });
      if (reply === undefined) {
        throw new AlreadyRunningError(key);
      }
      try {
        return await original.apply(this, args);
      } finally {
        await this.redis
          .eval(RELEASE_SCRIPT, { keys: [key], arguments: [token] })
          .catch((err) => log.warn({ err, key }, 'release failed'));
      }
    } as typeof original;
  };
}

export class PayslipRunService implements HasRedis {
  /** `db` has a query_timeout of 60 s and a connectionTimeoutMillis of 5 s. */
  constructor(
    readonly redis: RedisClientType,
    private readonly db: Pool,
  ) {}

  @Exclusive((tenantId: string, period: string) => `${tenantId}:${period}`, 300_000)
  async run(tenantId: string, period: string): Promise<{ built: number }> {
    const pending = await this.db.query<{ employee_id: string }>(
      `SELECT e.employee_id FROM employments e
        WHERE e.tenant_id = $1 AND NOT EXISTS (
          SELECT 1 FROM payslips p WHERE p.employee_id = e.employee_id AND p.period = $2)`,
      [tenantId, period],
    );
    const ids = pending.rows.map((r) => r.employee_id);
    if (ids.length === 0) return { built: 0 };

    const built = await this.db.query(
      `INSERT INTO payslips (tenant_id, employee_id, period, net_cents)
       SELECT $1, id, $2, net_for(id, $2) FROM unnest($3::uuid[]) AS id`,
      [tenantId, period, ids],
    );
    log.info({ tenantId, period, built: built.rowCount }, 'payslips built');
    return { built: built.rowCount ?? 0 };
  }
}

const RUN_PATH = /^\/tenants\/([\w-]+)\/payslips\/(\d{4}-\d{2})\/run$/;

export function payslipRoutes(service: PayslipRunService): Middleware {
  return async (ctx, next) => {
    const match = ctx.method === 'POST' ? RUN_PATH.exec(ctx.path) : null;
    if (!match) return next();
    const [, tenantId, period] = match;
    ctx.body = await service.run(tenantId, period);
    ctx.status = 201;
  };
}
