import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface Logger {
  log(message: string): void;
  error(message: string, trace?: string): void;
}

export interface TenantApi {
  list(): Promise<string[]>;
  sync(tenantId: string, signal: AbortSignal): Promise<void>;
}

/**
 * Pulls the changes of each tenant from the CRM. Runs on every instance every minute;
 * a lock per tenant keeps two instances from syncing the same one.
 */
export class TenantSyncService {
  private readonly lockTtlMs = 30_000;

  private readonly unlockScript = `
    if redis.call("get", KEYS[1]) == ARGV[1] then
      return redis.call("del", KEYS[1])
    end
    return 0
  `;

  constructor(
    private readonly redis: Redis,
    private readonly api: TenantApi,
    private readonly logger: Logger,
  ) {}

  // @Cron(CronExpression.EVERY_MINUTE)
  async handleCron(): Promise<void> {
    for (const tenantId of await this.api.list()) {
      try {
        await this.syncTenant(tenantId);
      } catch (err) {
        this.logger.error(`sync of ${tenantId} failed`, (err as Error).stack);
      }
    }
  }

  async syncTenant(tenantId: string): Promise<boolean> {
    const key = `tenant-sync:${tenantId}`;
    const token = await this.tryLock(key);
    if (!token) {
      this.logger.log(`${tenantId} is synced by another instance`);
      return false;
    }
    try {
      await this.api.sync(tenantId, AbortSignal.timeout(this.lockTtlMs - 5_000));
      return true;
    } finally {
      await this.unlock(key, token);
    }
  }

  private async tryLock(key: string): Promise<string | null> {
    const token = randomUUID();
    const reply = await this.redis.set(key, token, 'EX', this.lockTtlMs, 'NX');
    return reply === 'OK' ? token : null;
  }

  private async unlock(key: string, token: string): Promise<void> {
    await this.redis.eval(this.unlockScript, 1, key, token);
  }
}
