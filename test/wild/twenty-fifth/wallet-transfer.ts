import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export class WalletBusy extends Error {}
export class InsufficientFunds extends Error {}

export interface Ledger {
  balance(wallet: string, signal: AbortSignal): Promise<bigint>;
  /** Stores both balances in one transaction; a call still open when the signal fires is rolled back. */
  store(balances: Record<string, bigint>, signal: AbortSignal): Promise<void>;
}

class WalletLease implements AsyncDisposable {
  static readonly TTL_MS = 30_000;
  static readonly PATIENCE_MS = 4_000;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
  ) {}

  static async take(redis: Redis, wallet: string): Promise<WalletLease> {
    const key = `wallet:${wallet}:lease`;
    const token = randomUUID();
    const giveUp = performance.now() + WalletLease.PATIENCE_MS;
    for (;;) {
      const reply = await redis.set(key, token, 'PX', WalletLease.TTL_MS, 'NX');
      if (reply === 'OK') return new WalletLease(redis, key, token);
      if (performance.now() > giveUp) throw new WalletBusy(wallet);
      await sleep(40 + Math.random() * 80);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
    try {
      await this.redis.eval(script, 1, this.key, this.token);
    } catch (err) {
      console.warn(`${this.key}: not released, will expire`, err);
    }
  }
}

/**
 * Runs `work` while nobody else touches the two wallets. The leases are taken in the order of
 * the ids (no deadlock between a->b and b->a) and go away with the scope, also when it throws.
 */
async function withWallets<T>(
  redis: Redis,
  a: string,
  b: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const [first, second] = a < b ? [a, b] : [b, a];
  await using _first = await WalletLease.take(redis, first);
  await using _second = await WalletLease.take(redis, second);
  // 4 s of waiting for the second lease and 10 s of work stay far below the 30 s of the leases.
  return work(AbortSignal.timeout(10_000));
}

export interface Transfer {
  from: string;
  to: string;
  amount: bigint;
}

export const createTransfers = (redis: Redis, ledger: Ledger) => ({
  async transfer({ from, to, amount }: Transfer): Promise<{ left: bigint }> {
    if (from === to) throw new RangeError('cannot transfer to the same wallet');
    if (amount <= 0n) throw new RangeError('amount must be positive');

    return withWallets(redis, from, to, async (signal) => {
      const [payer, payee] = await Promise.all([ledger.balance(from, signal), ledger.balance(to, signal)]);
      if (payer < amount) throw new InsufficientFunds(from);
      signal.throwIfAborted();
      await ledger.store({ [from]: payer - amount, [to]: payee + amount }, signal);
      return { left: payer - amount };
    });
  },
});
