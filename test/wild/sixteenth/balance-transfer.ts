import Redlock, { type Lock } from 'redlock5';
import type { Redis } from 'ioredis';

/**
 * Moves money between two accounts. Both accounts are locked over independent
 * Redis nodes; the store compares account versions as a second line.
 */
const LOCK_MS = 12_000;
const MARGIN_MS = 2_000;

export interface Account {
  id: string;
  cents: number;
  version: number;
}

export interface AccountStore {
  load(id: string, opts: { signal: AbortSignal }): Promise<Account>;
  /**
   * One transaction over both accounts. Rejects, with nothing written, if the
   * signal aborts or a version is no longer the given one.
   */
  saveBoth(from: Account, to: Account, opts: { signal: AbortSignal }): Promise<void>;
}

export class InsufficientFundsError extends Error {}
export class AccountsBusyError extends Error {}

export class TransferService {
  private readonly redlock: Redlock;

  constructor(
    nodes: Redis[],
    private readonly store: AccountStore,
  ) {
    this.redlock = new Redlock(nodes, {
      driftFactor: 0.01,
      retryCount: 8,
      retryDelay: 150,
      retryJitter: 100,
    });
    // A node that is down is reported here; the majority decides.
    this.redlock.on('error', (err) => console.debug('redlock', err));
  }

  async transfer(fromId: string, toId: string, cents: number): Promise<void> {
    if (fromId === toId) throw new RangeError('accounts are the same');
    if (!Number.isSafeInteger(cents) || cents <= 0) throw new RangeError('bad amount');

    const lock = await this.lockBoth(fromId, toId);
    try {
      const left = Math.floor(lock.expiration - Date.now() - MARGIN_MS);
      if (left <= 0) throw new AccountsBusyError('locks were granted too late');
      const signal = AbortSignal.timeout(left);

      const from = await this.store.load(fromId, { signal });
      const to = await this.store.load(toId, { signal });
      if (from.cents < cents) throw new InsufficientFundsError(fromId);

      signal.throwIfAborted();
      await this.store.saveBoth(
        { ...from, cents: from.cents - cents },
        { ...to, cents: to.cents + cents },
        { signal },
      );
    } finally {
      await lock.release().catch((err: unknown) => {
        console.warn('account locks left to their TTL', err);
      });
    }
  }

  private async lockBoth(fromId: string, toId: string): Promise<Lock> {
    const keys = [fromId, toId].sort().map((id) => `lock:account:${id}`);
    try {
      return await this.redlock.acquire(keys, LOCK_MS);
    } catch (err) {
      throw new AccountsBusyError(`could not lock ${keys.join(', ')}`, { cause: err });
    }
  }
}
