import Redis from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import pino from 'pino';

export interface SessionPolicy {
  /** Sessions the farm's SCADA gateway accepts at a time, over all collectors. */
  maxSessions: number;
  sessionMs: number;
  lockMs: number;
  waitMs: number;
}

export interface SessionLimiter {
  withSession<T>(farmId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

export interface TelemetrySink {
  store(farmId: string, turbineId: string, sample: unknown): Promise<void>;
}

export class RedisSessionLimiter implements SessionLimiter {
  private readonly semaphores = new Map<string, Semaphore>();

  constructor(private readonly redis: Redis, private readonly policy: SessionPolicy) {
    if (policy.sessionMs >= policy.lockMs) throw new RangeError('sessionMs must be below lockMs');
  }

  async withSession<T>(farmId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const semaphore = this.semaphoreFor(farmId);
    await semaphore.acquire();
    try {
      return await work(AbortSignal.timeout(this.policy.sessionMs));
    } finally {
      await semaphore.release();
    }
  }

  private semaphoreFor(farmId: string): Semaphore {
    let semaphore = this.semaphores.get(farmId);
    if (!semaphore) {
      semaphore = new Semaphore(this.redis, `scada:${farmId}:sessions`, this.policy.maxSessions, {
        lockTimeout: this.policy.lockMs,
        acquireTimeout: this.policy.waitMs,
        retryInterval: 100,
        refreshInterval: 0,
      });
      this.semaphores.set(farmId, semaphore);
    }
    return semaphore;
  }
}

export class TelemetryCollector {
  constructor(
    private readonly limiter: SessionLimiter,
    private readonly sink: TelemetrySink,
    private readonly log: pino.Logger,
  ) {}

  async collect(farmId: string, gatewayUrl: string, turbineIds: readonly string[]): Promise<number> {
    const outcomes = await Promise.allSettled(
      turbineIds.map((turbineId) => this.collectOne(farmId, gatewayUrl, turbineId)),
    );
    const failed = outcomes.filter((o): o is PromiseRejectedResult => o.status === 'rejected');
    for (const { reason } of failed) this.log.warn({ farmId, err: reason }, 'turbine not collected');
    return outcomes.length - failed.length;
  }

  private async collectOne(farmId: string, gatewayUrl: string, turbineId: string): Promise<void> {
    const sample = await this.limiter.withSession(farmId, async (signal) => {
      const res = await fetch(`${gatewayUrl}/turbines/${encodeURIComponent(turbineId)}/telemetry`, { signal });
      if (!res.ok) throw new Error(`${turbineId}: gateway answered ${res.status}`);
      return res.json();
    });
    await this.sink.store(farmId, turbineId, sample);
  }
}

export function createCollector(sink: TelemetrySink, env: NodeJS.ProcessEnv = process.env): TelemetryCollector {
  const log = pino({ name: 'scada-collector' });
  const redis = new Redis(env.REDIS_URL ?? 'redis://localhost:6379');
  redis.on('error', (err) => log.error({ err }, 'redis'));
  const limiter = new RedisSessionLimiter(redis, {
    maxSessions: Number(env.SCADA_MAX_SESSIONS ?? 4),
    sessionMs: 15_000,
    lockMs: 25_000,
    waitMs: 120_000,
  });
  return new TelemetryCollector(limiter, sink, log);
}
