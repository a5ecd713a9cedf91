import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";
import { logger } from "./logger";

export interface LimiterOptions {
  /** How many permits exist across all processes. */
  limit: number;
  /** A permit that is not refreshed for this long is taken back. Default: 20 s. */
  permitTtlMs?: number;
  /** How long `run` waits for a permit. Default: 30 s. */
  maxWaitMs?: number;
}

export class NoPermitError extends Error {
  constructor(name: string, waitedMs: number) {
    super(`No permit for "${name}" within ${waitedMs} ms`);
    this.name = "NoPermitError";
  }
}

export class PermitLostError extends Error {
  constructor(name: string) {
    super(`Permit for "${name}" could not be refreshed in time`);
    this.name = "PermitLostError";
  }
}

// Members are permit ids, scores are expiry times by the clock of the server (Redis 5+).
const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

const ACQUIRE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
return 1`;

const REFRESH = `${NOW}
local expiry = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not expiry or tonumber(expiry) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
return 1`;

/** Limits how many jobs run at once across the fleet, e.g. towards a partner API. */
export class ConcurrencyLimiter {
  private readonly key: string;
  private readonly ttl: number;
  private readonly maxWait: number;

  constructor(
    private readonly redis: Redis,
    private readonly name: string,
    private readonly options: LimiterOptions,
  ) {
    this.key = `limiter:${name}`;
    this.ttl = options.permitTtlMs ?? 20_000;
    this.maxWait = options.maxWaitMs ?? 30_000;
  }

  /**
   * Runs `task` with a permit. The task should hand `signal` on to its I/O: it is aborted
   * before an unrefreshed permit is given to somebody else.
   */
  async run<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const controller = new AbortController();
    const margin = this.ttl * 0.15;
    let finished = false;
    let deadline: NodeJS.Timeout | undefined;
    let heartbeat: NodeJS.Timeout | undefined;

    const lose = () => {
      if (!finished) controller.abort(new PermitLostError(this.name));
    };
    const validFrom = (sentAt: number) => {
      clearTimeout(deadline);
      deadline = setTimeout(lose, Math.max(0, sentAt + this.ttl - margin - performance.now()));
    };
    const refresh = async (): Promise<void> => {
      const sentAt = performance.now();
      try {
        const ok = await this.redis.eval(REFRESH, 1, this.key, id, this.ttl);
        if (finished || controller.signal.aborted) return;
        if (ok !== 1) return lose();
        validFrom(sentAt);
      } catch (err) {
        logger.warn({ err, limiter: this.name }, "permit refresh failed, trying again");
      }
      if (!finished && !controller.signal.aborted) heartbeat = setTimeout(refresh, this.ttl / 4);
    };

    validFrom(await this.acquire(id));
    heartbeat = setTimeout(refresh, this.ttl / 4);
    try {
      return await task(controller.signal);
    } finally {
      finished = true;
      clearTimeout(deadline);
      clearTimeout(heartbeat);
      await this.redis.zrem(this.key, id).catch((err: unknown) => {
        logger.warn({ err, limiter: this.name }, "permit not returned, it will time out");
      });
    }
  }

  /** Resolves with the (monotonic) time at which the successful attempt was sent. */
  private async acquire(id: string): Promise<number> {
    const startedAt = performance.now();
    for (;;) {
      const sentAt = performance.now();
      const ok = await this.redis.eval(ACQUIRE, 1, this.key, id, this.options.limit, this.ttl);
      if (ok === 1) return sentAt;
      const waited = performance.now() - startedAt;
      if (waited >= this.maxWait) throw new NoPermitError(this.name, Math.round(waited));
      await delay(100 + Math.random() * 200);
    }
  }
}
