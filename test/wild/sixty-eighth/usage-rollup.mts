import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Kysely } from 'kysely';

export interface Log {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

const RENEW = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

export class Lease implements AsyncDisposable {
  readonly #abort = new AbortController();
  #renewTimer: NodeJS.Timeout | undefined;
  #deadlineTimer: NodeJS.Timeout | undefined;
  #closed = false;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    private readonly log: Log,
    sentAt: number,
  ) {
    this.#heldFrom(sentAt);
    this.#scheduleRenewal();
  }

  static async tryAcquire(redis: Redis, key: string, ttlMs: number, log: Log): Promise<Lease | null> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
    if (reply !== 'OK') {
      return null;
    }
    return new Lease(redis, key, token, ttlMs, log, sentAt);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  // The key lives at least until ttl after the command left us, so this is the earliest end.
  #heldFrom(sentAt: number): void {
    clearTimeout(this.#deadlineTimer);
    const left = sentAt + this.ttlMs - performance.now();
    if (left <= 0) {
      this.#lose('expired');
      return;
    }
    this.#deadlineTimer = setTimeout(() => this.#lose('expired'), left);
  }

  #scheduleRenewal(): void {
    if (this.#closed || this.signal.aborted) {
      return;
    }
    this.#renewTimer = setTimeout(() => void this.#renew(), this.ttlMs / 3);
  }

  async #renew(): Promise<void> {
    const sentAt = performance.now();
    try {
      const renewed = await this.redis.eval(RENEW, 1, this.key, this.token, this.ttlMs);
      if (this.#closed) {
        return;
      }
      if (renewed !== 1) {
        this.#lose('taken');
        return;
      }
      if (!this.signal.aborted) {
        this.#heldFrom(sentAt);
      }
    } catch (err) {
      // tried again below; the deadline runs on meanwhile
      this.log.warn('lease renewal failed', { key: this.key, err });
    }
    this.#scheduleRenewal();
  }

  #lose(why: string): void {
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#deadlineTimer);
    this.#abort.abort(new LeaseLostError(`${this.key}: ${why}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#deadlineTimer);
    try {
      await this.redis.eval(RELEASE, 1, this.key, this.token);
    } catch (err) {
      this.log.warn('lease left to expire', { key: this.key, err });
    }
  }
}

interface Tables {
  usage_events: { tenant_id: string; day: string; units: number };
  usage_daily: { tenant_id: string; day: string; units: number };
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 2_000,
  maxRetriesPerRequest: 1,
});

/**
 * Rolls a finished day up into usage_daily. Events of a finished day do not change any more, so
 * running it twice writes the same numbers twice; the lease is there because the query is heavy.
 */
export async function rollUpDay(db: Kysely<Tables>, day: string, tenants: AsyncIterable<string>, log: Log): Promise<number> {
  if (day >= new Date(Date.now() - 3_600_000).toISOString().slice(0, 10)) {
    throw new RangeError(`${day} is not over yet`);
  }

  await using lease = await Lease.tryAcquire(redis, `usage:rollup:${day}`, 30_000, log);
  if (!lease) {
    log.info('rollup runs elsewhere', { day });
    return 0;
  }

  let done = 0;
  for await (const tenantId of tenants) {
    lease.signal.throwIfAborted();
    const row = await db
      .selectFrom('usage_events')
      .select((eb) => eb.fn.sum<number>('units').as('units'))
      .where('tenant_id', '=', tenantId)
      .where('day', '=', day)
      .executeTakeFirst();
    const units = Number(row?.units ?? 0);

    lease.signal.throwIfAborted();
    await db
      .insertInto('usage_daily')
      .values({ tenant_id: tenantId, day, units })
      .onConflict((oc) => oc.columns(['tenant_id', 'day']).doUpdateSet({ units }))
      .execute();
    done += 1;
  }
  return done;
}
