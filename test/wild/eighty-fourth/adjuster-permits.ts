import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
`;

const TAKE = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1])
  and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * tonumber(ARGV[3]))
return 1`;

const RENEW = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * tonumber(ARGV[2]))
return 1`;

export interface PermitOptions {
  /** Permits that exist in the whole fleet. */
  limit: number;
  /** Life of a permit that is not renewed. */
  ttlMs: number;
  /** How long a caller waits for one. */
  maxWaitMs: number;
}

export class NoPermitError extends Error {}

/** Bounds how many valuations the insurer asks of an outside appraiser at one time. */
export class AppraiserPermits {
  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly opts: PermitOptions,
  ) {}

  /**
   * Runs `work` under a permit. The signal fires when the permit can no longer be
   * counted on; `work` has to stop its outside calls then.
   */
  async run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { ttlMs } = this.opts;
    const id = randomUUID();
    const lost = new AbortController();
    let stopped = false;
    let fuse: NodeJS.Timeout | undefined;
    let beat: NodeJS.Timeout | undefined;

    const arm = (asked: number) => {
      clearTimeout(fuse);
      if (stopped) return;
      const left = asked + ttlMs * 0.9 - performance.now();
      fuse = setTimeout(() => lost.abort(new NoPermitError('permit ran out')), Math.max(0, left));
    };

    const renew = async () => {
      const asked = performance.now();
      try {
        if ((await this.redis.eval(RENEW, 1, this.key, id, ttlMs)) === 1) arm(asked);
        else lost.abort(new NoPermitError('permit was lost'));
      } catch {
        // the fuse keeps burning; the next beat may get through
      }
    };

    try {
      arm(await this.take(id));
      beat = setInterval(renew, Math.floor(ttlMs / 4));
      return await work(lost.signal);
    } finally {
      stopped = true;
      clearInterval(beat);
      clearTimeout(fuse);
      await this.redis.zrem(this.key, id).catch(() => undefined);
    }
  }

  /** Returns the moment at which the successful request was sent. */
  private async take(id: string): Promise<number> {
    const giveUpAt = performance.now() + this.opts.maxWaitMs;
    for (;;) {
      const asked = performance.now();
      const got = await this.redis.eval(TAKE, 1, this.key, id, this.opts.limit, this.opts.ttlMs);
      if (got === 1) return asked;
      if (performance.now() >= giveUpAt) throw new NoPermitError('all permits are out');
      await sleep(120 + Math.random() * 200);
    }
  }
}

/** Asks the appraiser for the market value of a damaged vehicle, in cents. */
export async function appraise(permits: AppraiserPermits, vin: string): Promise<number> {
  return permits.run(async (lost) => {
    const res = await fetch(`${process.env.APPRAISER_URL}/v2/value/${encodeURIComponent(vin)}`, {
      signal: AbortSignal.any([lost, AbortSignal.timeout(45_000)]),
    });
    if (!res.ok) throw new Error(`appraiser answered ${res.status}`);
    const { cents } = (await res.json()) as { cents: number };
    return cents;
  });
}
