import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import type { Logger } from 'pino';

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface AntennaLeaderOptions {
  /** Configured with a commandTimeout of one second. */
  redis: Redis;
  logger: Logger;
  metrics: { inc(name: string, labels?: Record<string, string>): void };
  antenna: string;
  ttlMs?: number;
}

/** Emits 'elected' and 'deposed'. */
export class AntennaLeader extends EventEmitter {
  private readonly id = randomUUID();
  private readonly key: string;
  private readonly ttlMs: number;
  private timer?: NodeJS.Timeout;
  private leader = false;
  private stopped = false;

  constructor(private readonly opts: AntennaLeaderOptions) {
    super();
    this.ttlMs = opts.ttlMs ?? 10_000;
    this.key = `station:antenna:${opts.antenna}:leader`;
  }

  get isLeader(): boolean {
    return this.leader;
  }

  start(): void {
    void this.tick();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    if (!this.leader) return;
    this.become(false);
    await this.opts.redis.eval(RESIGN, 1, this.key, this.id);
  }

  private async tick(): Promise<void> {
    const { redis, logger, metrics, antenna } = this.opts;
    try {
      if (this.leader) {
        const renewed = await redis.eval(RENEW, 1, this.key, this.id, this.ttlMs);
        if (renewed !== 1) this.become(false);
      } else {
        const won = await redis.set(this.key, this.id, 'PX', this.ttlMs, 'NX');
        if (won === 'OK' && !this.stopped) this.become(true);
      }
    } catch (err) {
      metrics.inc('antenna_leader_errors', { antenna });
      logger.warn({ err, antenna }, 'election round failed, next one follows');
    } finally {
      if (!this.stopped) this.timer = setTimeout(() => void this.tick(), this.ttlMs / 4);
    }
  }

  private become(leader: boolean): void {
    if (this.leader === leader) return;
    this.leader = leader;
    this.opts.metrics.inc(leader ? 'antenna_elected' : 'antenna_deposed', { antenna: this.opts.antenna });
    this.opts.logger.info({ antenna: this.opts.antenna, leader }, 'leadership changed');
    this.emit(leader ? 'elected' : 'deposed');
  }
}

export interface Rotator {
  slew(azimuth: number, elevation: number): Promise<void>;
}

/** Keeps the dish on the satellite for as long as this process leads. */
export function trackPass(
  leader: AntennaLeader,
  rotator: Rotator,
  lookAngles: (at: Date) => { azimuth: number; elevation: number },
  logger: Logger,
): () => void {
  const timer = setInterval(async () => {
    if (!leader.isLeader) return;
    const { azimuth, elevation } = lookAngles(new Date());
    if (elevation < 5) return;
    try {
      await rotator.slew(azimuth, elevation);
    } catch (err) {
      logger.error({ err }, 'slew failed');
    }
  }, 500);
  return () => clearInterval(timer);
}
