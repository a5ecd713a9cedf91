import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface LedgerLockHandle {
  /** aborted when the lock can no longer be relied on */
  readonly signal: AbortSignal;
  [Symbol.asyncDispose](): Promise<void>;
}

export class LedgerLockUnavailable extends Error {}

/**
 * Lock for closing a ledger period, over five independent Redis masters.
 *
 *   await using lock = await ledgerLock.acquire('2024-06', 3_000);
 *   await closePeriod('2024-06', lock.signal);
 */
export class LedgerLock {
  private readonly masters: Redis[];
  private readonly majority: number;

  constructor(
    m1: Redis,
    m2: Redis,
    m3: Redis,
    m4: Redis,
    m5: Redis,
    private readonly answerWithinMs = 800,
  ) {
    this.masters = [m1, m2, m3, m4, m5];
    this.majority = Math.floor(this.masters.length / 2) + 1;
  }

  async acquire(period: string, ttlMs: number, attempts = 3): Promise<LedgerLockHandle> {
    const key = `ledger:close:${period}`;

    for (let attempt = 1; attempt <= attempts; attempt++) {
      const token = randomUUID();
      let granted = 0;
      // One after the other: two rivals meet on the first master already and
      // do not split the votes among themselves.
      for (const master of this.masters) {
        if (await this.ask(master, (m) => m.set(key, token, 'PX', ttlMs, 'NX'), 'OK')) granted++;
      }

      const grantedAt = performance.now();
      const validMs = ttlMs - this.drift(ttlMs);
      if (granted >= this.majority && validMs > 0) {
        return this.handle(key, token, grantedAt + validMs);
      }

      // give back minority votes, including those whose answer we never saw
      await this.unlockAll(key, token);
      await new Promise<void>((r) => setTimeout(r, 100 + Math.random() * 300));
    }
    throw new LedgerLockUnavailable(`period ${period} is being closed elsewhere`);
  }

  private handle(key: string, token: string, validUntil: number): LedgerLockHandle {
    const controller = new AbortController();
    const timer = setTimeout(
      () => controller.abort(new LedgerLockUnavailable(`${key} ran out`)),
      Math.max(0, validUntil - performance.now()),
    );
    let open = true;
    return {
      signal: controller.signal,
      [Symbol.asyncDispose]: async () => {
        if (!open) return;
        open = false;
        clearTimeout(timer);
        await this.unlockAll(key, token);
      },
    };
  }

  private async unlockAll(key: string, token: string): Promise<void> {
    await Promise.all(this.masters.map((master) => this.ask(master, (m) => m.eval(UNLOCK, 1, key, token), 1)));
  }

  /** A master that fails or does not answer in time has simply not agreed. */
  private async ask(master: Redis, command: (m: Redis) => Promise<unknown>, expected: unknown): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<undefined>((r) => {
      timer = setTimeout(() => r(undefined), this.answerWithinMs);
    });
    try {
      return (await Promise.race([command(master), silence])) === expected;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  // clock drift between the machines, as in the Redlock description
  private drift(ttlMs: number): number {
    return Math.ceil(ttlMs * 0.01) + 2;
  }
}
