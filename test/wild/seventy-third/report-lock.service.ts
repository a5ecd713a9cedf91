import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { randomUUID } from 'crypto';
import type { Redis } from 'ioredis';

export const REDIS_CLIENT = Symbol('REDIS_CLIENT');

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

const EXTEND_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("pexpire", KEYS[1], ARGV[2])
  end
  return 0
`;

/**
 * Makes sure a report is only built once at a time across all API pods.
 */
@Injectable()
export class ReportLockService {
  private readonly logger = new Logger(ReportLockService.name);
  private readonly ttlMs: number;

  // identifies us as the owner of the lock when extending / releasing
  private owner!: string;

  constructor(
    @Inject(REDIS_CLIENT) private readonly redis: Redis,
    config: ConfigService,
  ) {
    this.ttlMs = config.get<number>('REPORT_LOCK_TTL_MS', 60_000);
  }

  async run<T>(reportId: string, build: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const acquired = await this.acquire(reportId);
    if (!acquired) {
      throw new ConflictException(`Report ${reportId} is already being generated`);
    }

    const aborter = new AbortController();
    let lastExtended = Date.now();

    const heartbeat = setInterval(async () => {
      const sentAt = Date.now();
      try {
        if (await this.extend(reportId)) {
          lastExtended = sentAt;
        } else {
          aborter.abort(new Error(`Lost lock for report ${reportId}`));
        }
      } catch (err) {
        this.logger.warn(`Extending lock for ${reportId} failed: ${(err as Error).message}`);
        if (Date.now() - lastExtended > this.ttlMs * 0.6) {
          aborter.abort(new Error(`Could not keep lock for report ${reportId}`));
        }
      }
    }, this.ttlMs / 5);

    try {
      return await build(aborter.signal);
    } finally {
      clearInterval(heartbeat);
      await this.release(reportId);
    }
  }

  private async acquire(reportId: string): Promise<boolean> {
    this.owner = randomUUID();
    const reply = await this.redis.set(this.key(reportId), this.owner, 'PX', this.ttlMs, 'NX');
    return reply === 'OK';
  }

  private async extend(reportId: string): Promise<boolean> {
    const reply = await this.redis.eval(EXTEND_SCRIPT, 1, this.key(reportId), this.owner, this.ttlMs);
    return reply === 1;
  }

  private async release(reportId: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE_SCRIPT, 1, this.key(reportId), this.owner);
    } catch (err) {
      this.logger.warn(`Releasing lock for ${reportId} failed: ${(err as Error).message}`);
    }
  }

  private key(reportId: string): string {
    return `report-lock:${reportId}`;
  }
}
