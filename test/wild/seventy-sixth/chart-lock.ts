import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import dayjs from 'dayjs';
import duration from 'dayjs/plugin/duration';

dayjs.extend(duration);

type Duration = duration.Duration;

// Same layout as Redisson's RLock: a hash with the owner as field and the hold count as value.
const LOCK = `
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return -1
end
return redis.call('pttl', KEYS[1])`;

const UNLOCK = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if left <= 0 then
  redis.call('del', KEYS[1])
  return 0
end
return left`;

export class ChartLockedError extends Error {
  constructor(readonly patientId: string) {
    super(`chart of patient ${patientId} is being edited`);
    this.name = 'ChartLockedError';
  }
}

export interface ChartLockOptions {
  lease?: Duration;
  wait?: Duration;
}

/**
 * Reentrant lock for patient charts. MedicationService, AllergyService and OrderService call each
 * other, and each of them locks the chart for itself.
 */
export class ChartLockService {
  private readonly owner: string;
  private readonly lease: Duration;
  private readonly wait: Duration;

  constructor(
    private readonly redis: Redis,
    options: ChartLockOptions = {},
  ) {
    this.owner = `${hostname()}:${process.pid}:${Date.now().toString(36)}`;
    this.lease = options.lease ?? dayjs.duration(30, 'seconds');
    this.wait = options.wait ?? dayjs.duration(5, 'seconds');
  }

  async withChart<T>(patientId: string, edit: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `ehr:chart:${patientId}:lock`;
    const startedAt = await this.lock(key, patientId);
    const budget = this.lease.asMilliseconds() * 0.8 - (Date.now() - startedAt);
    try {
      // Repositories take the signal and roll back when it fires.
      return await edit(AbortSignal.timeout(Math.max(0, Math.floor(budget))));
    } finally {
      await this.unlock(key);
    }
  }

  private async lock(key: string, patientId: string): Promise<number> {
    const giveUpAt = Date.now() + this.wait.asMilliseconds();
    for (;;) {
      const sentAt = Date.now();
      const ttl = Number(await this.redis.eval(LOCK, 1, key, this.owner, this.lease.asMilliseconds()));
      if (ttl === -1) return sentAt;
      if (Date.now() >= giveUpAt) throw new ChartLockedError(patientId);
      const pause = Math.min(Math.max(ttl, 20), 50 + Math.random() * 150);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  private async unlock(key: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, 1, key, this.owner);
    } catch (err) {
      console.warn(`could not unlock ${key}: ${(err as Error).message}`);
    }
  }
}
