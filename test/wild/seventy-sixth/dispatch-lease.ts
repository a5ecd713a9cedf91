import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { logger } from '../logger';
import type { PlanRepository, RouteSolver } from './types';

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const SAFETY_MS = 1_000;

export class LeaseUnavailableError extends Error {
  constructor(readonly key: string) {
    super(`lease ${key} is held elsewhere`);
  }
}

export class LeaseLostError extends Error {}

export class DepotLease {
  constructor(
    private readonly redis: Redis,
    private readonly leaseMs = 15_000,
  ) {}

  /**
   * Runs `fn` while this process holds the lease of a depot. The lease is renewed for as long
   * as `fn` runs; `signal` fires when it could not be renewed in time.
   */
  async run<T>(depotId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `dispatch:lease:${depotId}`;
    const token = randomUUID();
    const sentAt = performance.now();

    let reply: string | null;
    try {
      reply = await this.redis.set(key, token, 'PX', this.leaseMs, 'NX');
    } catch (err) {
      // The write may have gone through although the reply did not reach us.
      void this.release(key, token);
      throw err;
    }
    if (reply !== 'OK') throw new LeaseUnavailableError(key);

    const ctl = new AbortController();
    const lose = (why: string) => {
      if (!ctl.signal.aborted) ctl.abort(new LeaseLostError(`${key}: ${why}`));
    };
    const armExpiry = (from: number) =>
      setTimeout(() => lose('not renewed in time'), Math.max(0, from + this.leaseMs - SAFETY_MS - performance.now()));

    let done = false;
    let expiry = armExpiry(sentAt);
    let beating: Promise<void> | undefined;

    const beat = async () => {
      const at = performance.now();
      try {
        const extended = await this.redis.eval(EXTEND, 1, key, token, String(this.leaseMs));
        if (done) return;
        if (extended !== 1) return lose('owned by someone else');
        clearTimeout(expiry);
        expiry = armExpiry(at);
      } catch (err) {
        logger.warn({ err, key }, 'lease renewal failed, next try on the next beat');
      }
    };

    const heartbeat = setInterval(() => {
      beating ??= beat().finally(() => {
        beating = undefined;
      });
    }, Math.floor(this.leaseMs / 4));

    try {
      return await fn(ctl.signal);
    } finally {
      done = true;
      clearInterval(heartbeat);
      clearTimeout(expiry);
      await this.release(key, token);
    }
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      logger.warn({ err, key }, 'lease not released, it will run out by itself');
    }
  }
}

export class DispatchPlanner {
  constructor(
    private readonly lease: DepotLease,
    private readonly plans: PlanRepository,
    private readonly solver: RouteSolver,
  ) {}

  async replan(depotId: string): Promise<void> {
    await this.lease.run(depotId, async (signal) => {
      const current = await this.plans.load(depotId);
      const next = await this.solver.solve(current, { signal });
      signal.throwIfAborted();
      // UPDATE plans SET ... , version = version + 1 WHERE depot_id = ? AND version = ?
      const saved = await this.plans.saveIfVersion(depotId, next, current.version);
      if (!saved) throw new LeaseLostError(`plan of ${depotId} moved on while solving`);
    });
  }
}
