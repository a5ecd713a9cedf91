import type { Redis } from 'ioredis';
import Redlock from 'redlock5';

interface Wallet {
  id: string;
  balanceCents: number;
  updatedAt: Date;
}

interface WalletRepository {
  findOne(id: string): Promise<Wallet | null>;
  save(wallet: Wallet): Promise<void>;
}

export class InsufficientFundsError extends Error {}

export class WalletService {
  private readonly redlock: Redlock;

  constructor(
    redis: Redis,
    private readonly wallets: WalletRepository,
  ) {
    this.redlock = new Redlock([redis], { retryCount: 20, retryDelay: 150, retryJitter: 100 });
    this.redlock.on('error', (err: Error) => console.debug('redlock: %s', err.message));
  }

  async debit(walletId: string, cents: number): Promise<number> {
    const wallet = await this.wallets.findOne(walletId);
    if (!wallet) throw new Error(`wallet ${walletId} not found`);
    if (wallet.balanceCents < cents) throw new InsufficientFundsError();

    return this.redlock.using([`wallet:${walletId}`], 10_000, async (signal) => {
      wallet.balanceCents -= cents;
      wallet.updatedAt = new Date();
      if (signal.aborted) throw signal.error;
      await this.wallets.save(wallet);
      return wallet.balanceCents;
    });
  }

  async credit(walletId: string, cents: number): Promise<number> {
    return this.redlock.using([`wallet:${walletId}`], 10_000, async (signal) => {
      const wallet = await this.wallets.findOne(walletId);
      if (!wallet) throw new Error(`wallet ${walletId} not found`);
      wallet.balanceCents += cents;
      wallet.updatedAt = new Date();
      if (signal.aborted) throw signal.error;
      await this.wallets.save(wallet);
      return wallet.balanceCents;
    });
  }
}
