import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

interface Wallet { id: string; balance: bigint }

interface Tx {
  wallet(id: string): Promise<Wallet>;
  setBalance(id: string, balance: bigint): Promise<void>;
  appendJournal(entry: { from: string; to: string; amount: bigint; ref: string }): Promise<void>;
}

/** BEGIN (read committed) before the callback, COMMIT after it, ROLLBACK if it throws. */
interface UnitOfWork {
  run<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

export interface TransferCommand { from: string; to: string; amount: bigint; ref: string }

export class InsufficientFunds extends Error {}
export class WalletLocked extends Error {}

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class WalletLocks {
  constructor(
    private readonly redis: RedisClientType,
    private readonly cfg = { ttlMs: 20_000, attempts: 30, pauseMs: 100 },
  ) {}

  /** Takes the locks in sorted order, so that A->B and B->A do not wait for each other. */
  async hold<T>(walletIds: string[], work: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    const taken: string[] = [];
    try {
      for (const id of [...walletIds].sort()) {
        const key = `wallet-lock:${id}`;
        await this.take(key, token);
        taken.push(key);
      }
      return await work();
    } finally {
      await Promise.allSettled(
        taken.map((key) => this.redis.eval(RELEASE, { keys: [key], arguments: [token] })),
      );
    }
  }

  private async take(key: string, token: string): Promise<void> {
    for (let i = 0; i < this.cfg.attempts; i++) {
      const r = await this.redis.set(key, token, { NX: true, PX: this.cfg.ttlMs });
      if (r === 'OK') return;
      await pause(this.cfg.pauseMs);
    }
    throw new WalletLocked(key);
  }
}

export class TransferService {
  constructor(private readonly uow: UnitOfWork, private readonly locks: WalletLocks) {}

  async transfer({ from, to, amount, ref }: TransferCommand): Promise<void> {
    if (from === to || amount <= 0n) throw new RangeError('bad transfer');

    await this.uow.run((tx) =>
      this.locks.hold([from, to], async () => {
        const source = await tx.wallet(from);
        const target = await tx.wallet(to);
        if (source.balance < amount) throw new InsufficientFunds(from);

        await tx.setBalance(from, source.balance - amount);
        await tx.setBalance(to, target.balance + amount);
        await tx.appendJournal({ from, to, amount, ref });
      }),
    );
  }
}
