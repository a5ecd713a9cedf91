import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { Injectable, InjectRedis } from './framework.js';

interface Held {
  token: string;
  depth: number;
  controller: AbortController;
  renewal: NodeJS.Timeout;
  validUntil: number;
}

/**
 * Mutex service for our API servers.
 *
 * Features:
 *  - owner token, SET NX PX, Lua compare-and-delete / compare-and-pexpire
 *  - auto-renewal; the AbortSignal fires when the lock could not be kept
 *  - reentrant: when a service method which holds the lock calls another one
 *    that needs the same lock, the inner call passes through instead of
 *    deadlocking, and the lock is released by the outermost one
 */
@Injectable()
export class LockService {
  private static readonly RELEASE =
    `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
  private static readonly RENEW =
    `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

  private readonly ttl = 15_000;
  private readonly held = new Map<string, Held>();

  constructor(@InjectRedis() private readonly redis: Redis) {}

  async runExclusive<T>(
    key: string,
    fn: (signal: AbortSignal) => Promise<T>,
    maxWait = 10_000,
  ): Promise<T> {
    const held = await this.enter(`mutex:${key}`, maxWait);
    try {
      held.controller.signal.throwIfAborted();
      return await fn(held.controller.signal);
    } finally {
      await this.leave(`mutex:${key}`, held);
    }
  }

  private async enter(key: string, maxWait: number): Promise<Held> {
    const giveUp = Date.now() + maxWait;
    for (;;) {
      const current = this.held.get(key);
      if (current) {
        current.depth++;
        return current;
      }

      const token = randomUUID();
      const sent = performance.now();
      if ((await this.redis.set(key, token, 'PX', this.ttl, 'NX')) === 'OK') {
        const held: Held = {
          token,
          depth: 1,
          controller: new AbortController(),
          validUntil: sent + this.ttl,
          renewal: setInterval(() => void this.renew(key, held), this.ttl / 5),
        };
        this.held.set(key, held);
        return held;
      }

      if (Date.now() > giveUp) throw new Error(`Timed out waiting for ${key}`);
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
    }
  }

  private async renew(key: string, held: Held): Promise<void> {
    const sent = performance.now();
    if (sent > held.validUntil - this.ttl / 5) {
      this.lose(key, held, 'lease about to run out');
      return;
    }
    try {
      const ok = await this.redis.eval(LockService.RENEW, 1, key, held.token, this.ttl);
      if (ok === 1) held.validUntil = Math.max(held.validUntil, sent + this.ttl);
      else this.lose(key, held, 'taken over by another owner');
    } catch {
      // the next tick tries again, or gives the lock up for lost
    }
  }

  private lose(key: string, held: Held, why: string): void {
    clearInterval(held.renewal);
    if (this.held.get(key) === held) this.held.delete(key);
    held.controller.abort(new Error(`${key}: ${why}`));
  }

  private async leave(key: string, held: Held): Promise<void> {
    if (--held.depth > 0) return;
    clearInterval(held.renewal);
    if (this.held.get(key) === held) this.held.delete(key);
    await this.redis.eval(LockService.RELEASE, 1, key, held.token).catch(() => undefined);
  }
}

@Injectable()
export class WalletService {
  constructor(
    private readonly locks: LockService,
    private readonly wallets: { load(id: string): Promise<number>; store(id: string, n: number): Promise<void> },
  ) {}

  async withdraw(id: string, amount: number): Promise<number> {
    return this.locks.runExclusive(`wallet:${id}`, async (signal) => {
      const balance = await this.wallets.load(id);
      if (balance < amount) throw new Error('insufficient funds');
      signal.throwIfAborted();
      await this.wallets.store(id, balance - amount);
      return balance - amount;
    });
  }
}
