import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Logger } from 'pino';

const CLOCK = `
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function keep()
  local last = redis.call('zrange', KEYS[1], -1, -1, 'withscores')
  redis.call('pexpireat', KEYS[1], string.format('%.0f', tonumber(last[2]) + 1000))
end
`;

const ENTER = `${CLOCK}
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local known = redis.call('zscore', KEYS[1], ARGV[1])
if not known and redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('zadd', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
keep()
return 1`;

const RENEW = `${CLOCK}
local until_ = redis.call('zscore', KEYS[1], ARGV[1])
if not until_ or tonumber(until_) <= now then return 0 end
redis.call('zadd', KEYS[1], 'XX', string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
keep()
return 1`;

export interface VaultPermitsDeps {
  redis: Redis;
  logger: Logger;
  metrics: { gauge(name: string, value: number): void; inc(name: string): void };
}

export interface VaultPermitsOptions {
  /** How many readers the climate gateway of one cellar puts up with at a time. */
  limit: number;
  ttlMs: number;
  waitMs: number;
}

export class VaultPermits {
  constructor(
    private readonly deps: VaultPermitsDeps,
    private readonly opts: VaultPermitsOptions = { limit: 4, ttlMs: 12_000, waitMs: 20_000 },
  ) {}

  async with<T>(cellarId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { redis, logger, metrics } = this.deps;
    const { limit, ttlMs, waitMs } = this.opts;
    const key = `cellar:permits:${cellarId}`;
    const id = randomUUID();
    const askedAt = performance.now();
    const lost = new AbortController();
    let heartbeat: NodeJS.Timeout | undefined;
    let watchdog: NodeJS.Timeout | undefined;

    const holdFrom = (sentAt: number) => {
      clearTimeout(watchdog);
      const left = sentAt + ttlMs * 0.9 - performance.now();
      watchdog = setTimeout(() => lost.abort(new Error(`permit for ${cellarId} ran out`)), Math.max(0, left));
    };

    try {
      for (;;) {
        const sentAt = performance.now();
        if ((await redis.eval(ENTER, 1, key, id, limit, ttlMs)) === 1) {
          if (performance.now() - sentAt > ttlMs / 2) throw new Error('permit came too late');
          holdFrom(sentAt);
          break;
        }
        if (performance.now() - askedAt > waitMs) {
          metrics.inc('cellar_permit_timeouts');
          throw new Error(`gateway of cellar ${cellarId} is busy`);
        }
        await sleep(100 + Math.random() * 200);
      }
      metrics.gauge('cellar_permit_wait_ms', performance.now() - askedAt);

      heartbeat = setInterval(async () => {
        const sentAt = performance.now();
        try {
          const kept = await redis.eval(RENEW, 1, key, id, ttlMs);
          if (lost.signal.aborted || !heartbeat) return;
          if (kept === 1) holdFrom(sentAt);
          else lost.abort(new Error(`permit for ${cellarId} was lost`));
        } catch (err) {
          logger.warn({ err, cellarId }, 'permit renewal failed');
        }
      }, ttlMs / 4);

      return await work(lost.signal);
    } finally {
      clearInterval(heartbeat);
      heartbeat = undefined;
      clearTimeout(watchdog);
      await redis.zrem(key, id).catch((err) => logger.warn({ err, cellarId }, 'permit left to expire'));
    }
  }
}

export async function readClimate(permits: VaultPermits, cellar: { id: string; gatewayUrl: string }) {
  return permits.with(cellar.id, async (lost) => {
    const signal = AbortSignal.any([lost, AbortSignal.timeout(30_000)]);
    const res = await fetch(new URL('/sensors/snapshot', cellar.gatewayUrl), { signal });
    if (!res.ok) throw new Error(`gateway answered ${res.status}`);
    return (await res.json()) as { rack: string; celsius: number; humidity: number }[];
  });
}
