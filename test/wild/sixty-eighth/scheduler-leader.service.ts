import { Injectable, Logger, type FactoryProvider, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import type { Redis } from 'ioredis';

export const REDIS = Symbol('REDIS');
export const APP_CONFIG = Symbol('APP_CONFIG');

export interface AppConfig {
  service: string;
  region: string;
  scheduler: { leaseMs: number };
}

export interface ScheduledTask {
  name: string;
  everyMs: number;
  run(signal: AbortSignal): Promise<void>;
}

// Takes the seat when it is free and prolongs it when it is ours already, in one go.
const TAKE_OR_RENEW = `
local holder = redis.call('GET', KEYS[1])
if holder == false or holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

@Injectable()
export class SchedulerLeaderService implements OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger(SchedulerLeaderService.name);
  private readonly seat: string;
  private readonly memberId: string;
  private readonly timers: NodeJS.Timeout[] = [];
  private term: AbortController | null = null;
  private leaderUntil = 0;

  constructor(
    private readonly redis: Redis,
    private readonly config: AppConfig,
  ) {
    this.seat = `${config.service}:scheduler:leader`;
    this.memberId = `${config.service}@${config.region}`;
  }

  onModuleInit(): void {
    const every = Math.floor(this.config.scheduler.leaseMs / 4);
    this.timers.push(setInterval(() => void this.beat(), every));
    // a beat that does not come through must not leave us leading
    this.timers.push(setInterval(() => this.checkDeadline(), 200));
    void this.beat();
  }

  async onApplicationShutdown(): Promise<void> {
    this.timers.forEach((timer) => clearInterval(timer));
    const wasLeader = this.isLeader();
    this.stepDown('shutdown');
    if (wasLeader) {
      await this.redis
        .eval(LEAVE, 1, this.seat, this.memberId)
        .catch((err: Error) => this.logger.warn(`seat not left: ${err.message}`));
    }
  }

  isLeader(): boolean {
    return this.term !== null && performance.now() < this.leaderUntil;
  }

  register(task: ScheduledTask): void {
    let running = false;
    this.timers.push(
      setInterval(() => {
        if (running || !this.isLeader() || !this.term) {
          return;
        }
        running = true;
        task
          .run(this.term.signal)
          .catch((err: Error) => this.logger.error(`${task.name}: ${err.message}`, err.stack))
          .finally(() => {
            running = false;
          });
      }, task.everyMs),
    );
  }

  private async beat(): Promise<void> {
    const { leaseMs } = this.config.scheduler;
    const askedAt = performance.now();
    try {
      const mine = await this.redis.eval(TAKE_OR_RENEW, 1, this.seat, this.memberId, leaseMs);
      if (mine !== 1) {
        this.stepDown('seat is taken');
        return;
      }
      this.leaderUntil = askedAt + leaseMs * 0.9;
      if (!this.term) {
        this.term = new AbortController();
        this.logger.log(`${this.memberId} leads`);
      }
    } catch (err) {
      this.logger.warn(`beat failed: ${(err as Error).message}`);
    }
  }

  private checkDeadline(): void {
    if (this.term && performance.now() >= this.leaderUntil) {
      this.stepDown('lease ran out');
    }
  }

  private stepDown(reason: string): void {
    if (!this.term) {
      return;
    }
    this.logger.log(`${this.memberId} steps down: ${reason}`);
    this.term.abort(new Error(reason));
    this.term = null;
    this.leaderUntil = 0;
  }
}

export const schedulerLeaderProvider: FactoryProvider<SchedulerLeaderService> = {
  provide: SchedulerLeaderService,
  useFactory: (redis: Redis, config: AppConfig) => new SchedulerLeaderService(redis, config),
  inject: [REDIS, APP_CONFIG],
};
