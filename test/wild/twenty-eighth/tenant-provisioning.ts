import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

/**
 * Serialises changes to a tenant's resources (database schema, DNS, plan). The mutex can be
 * nested: provision() calls changePlan(), which is also an entry point of its own.
 */

const LOCK_TTL_MS = 60_000;
const WORK_LIMIT_MS = 20_000;

// A hash of owner -> depth, like Redisson's RLock.
const LOCK = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const UNLOCK = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if depth <= 0 then
  redis.call('DEL', KEYS[1])
end
return depth
`;

export class TenantBusyError extends Error {
  constructor(tenantId: string) {
    super(`Tenant ${tenantId} is being changed by someone else`);
    this.name = 'TenantBusyError';
  }
}

export class TenantMutex {
  private readonly ownerId = `${hostname()}:${process.pid}:${randomUUID()}`;

  constructor(
    private readonly redis: Pick<RedisClientType, 'eval'>,
    private readonly waitMs = 5_000,
  ) {}

  async runExclusive<T>(tenantId: string, fn: () => Promise<T>): Promise<T> {
    const key = `tenant:${tenantId}:mutex`;
    const giveUpAt = Date.now() + this.waitMs;

    while (!(await this.tryLock(key))) {
      if (Date.now() >= giveUpAt) throw new TenantBusyError(tenantId);
      await sleep(100 + Math.random() * 100);
    }

    try {
      return await fn();
    } finally {
      await this.unlock(key);
    }
  }

  private async tryLock(key: string): Promise<boolean> {
    const reply = await this.redis.eval(LOCK, {
      keys: [key],
      arguments: [this.ownerId, String(LOCK_TTL_MS)],
    });
    return Number(reply) === 1;
  }

  private async unlock(key: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, { keys: [key], arguments: [this.ownerId] });
    } catch (err) {
      console.warn(`[tenants] ${key} not unlocked, will time out`, err);
    }
  }
}

export interface TenantBackend {
  schemaExists(tenantId: string, signal: AbortSignal): Promise<boolean>;
  createSchema(tenantId: string, signal: AbortSignal): Promise<void>;
  createDnsRecord(tenantId: string, signal: AbortSignal): Promise<void>;
  setPlan(tenantId: string, plan: string, signal: AbortSignal): Promise<void>;
}

export class TenantService {
  constructor(
    private readonly mutex: TenantMutex,
    private readonly backend: TenantBackend,
  ) {}

  provision(tenantId: string, plan: string): Promise<'created' | 'exists'> {
    return this.mutex.runExclusive(tenantId, async () => {
      const signal = AbortSignal.timeout(WORK_LIMIT_MS);
      if (await this.backend.schemaExists(tenantId, signal)) return 'exists';
      await this.backend.createSchema(tenantId, signal);
      await this.backend.createDnsRecord(tenantId, signal);
      await this.changePlan(tenantId, plan, signal);
      return 'created';
    });
  }

  changePlan(
    tenantId: string,
    plan: string,
    signal: AbortSignal = AbortSignal.timeout(WORK_LIMIT_MS),
  ): Promise<void> {
    return this.mutex.runExclusive(tenantId, () => this.backend.setPlan(tenantId, plan, signal));
  }
}
