import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Knex } from 'knex';

const UNLOCK_LUA = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

export interface FencedLock {
  key: string;
  token: string;
  fence: number;
}

export class LockTimeoutError extends Error {
  override name = 'LockTimeoutError';
}

export class FencedLockFactory {
  constructor(
    private readonly redis: Redis,
    private readonly log: Logger,
    private readonly ttlMs = 20_000,
    private readonly timeoutMs = 30_000,
  ) {}

  async obtain(name: string): Promise<FencedLock> {
    const key = `lock:{${name}}`;
    const token = randomBytes(16).toString('base64url');
    const fence = await this.redis.incr(`fence:{${name}}`);
    const until = Date.now() + this.timeoutMs;

    while (Date.now() < until) {
      const ok = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
      if (ok === 'OK') {
        this.log.info('lock obtained', { key, fence });
        return { key, token, fence };
      }
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 200));
    }
    throw new LockTimeoutError(`${name} still locked after ${this.timeoutMs} ms`);
  }

  async giveBack(lock: FencedLock): Promise<void> {
    try {
      await this.redis.eval(UNLOCK_LUA, 1, lock.key, lock.token);
    } catch (err) {
      this.log.warn('lock not given back, waiting for its ttl', { key: lock.key, err });
    }
  }
}

/**
 * Computes and stores the power setpoint of a turbine. The computation may take longer than the
 * lock lives (weather service), so the table keeps the fence of the last writer and a write with
 * an older fence is turned down.
 */
export class SetpointWriter {
  constructor(
    private readonly locks: FencedLockFactory,
    private readonly db: Knex,
    private readonly log: Logger,
  ) {}

  async update(turbineId: string, compute: (turbineId: string) => Promise<number>): Promise<boolean> {
    const lock = await this.locks.obtain(`turbine:${turbineId}`);
    try {
      const kilowatts = await compute(turbineId);

      const changed = await this.db('setpoints')
        .where({ turbine_id: turbineId })
        .andWhere('fence', '<', lock.fence)
        .update({ kilowatts, fence: lock.fence, updated_at: this.db.fn.now() });

      if (changed === 0) {
        this.log.warn('setpoint refused, newer fence in table', { turbineId, fence: lock.fence });
      }
      return changed === 1;
    } finally {
      await this.locks.giveBack(lock);
    }
  }
}
