import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const COMPARE_AND_DELETE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

const LEASE_MS = 5_000;
const MARGIN_MS = 150;

export interface WalletLease {
  readonly walletId: string;
  readonly until: number;
  isLive(): boolean;
}

export class WalletLeaseService {
  private readonly redis: Redis;
  private readonly log: (message: string, extra?: object) => void;

  constructor(redis: Redis, log: (message: string, extra?: object) => void = () => {}) {
    this.redis = redis;
    this.log = log;
  }

  private key(walletId: string): string {
    return `wallet:${walletId}:lease`;
  }

  async withWallet<T>(walletId: string, fn: (lease: WalletLease) => Promise<T>): Promise<T | null> {
    const token = randomUUID();
    const reply = await this.redis.set(this.key(walletId), token, 'PX', LEASE_MS, 'NX');
    if (reply !== 'OK') {
      this.log('wallet busy', { walletId });
      return null;
    }
    const until = performance.now() + LEASE_MS - MARGIN_MS;
    const lease: WalletLease = {
      walletId,
      until,
      isLive: () => performance.now() < until,
    };
    try {
      return await fn(lease);
    } finally {
      await this.redis.eval(COMPARE_AND_DELETE, 1, this.key(walletId), token);
    }
  }
}

export type Movement = { amount: number; apply: () => Promise<void> };

export async function applyMovements(service: WalletLeaseService, walletId: string, movements: Movement[]) {
  return service.withWallet(walletId, async (lease) => {
    let applied = 0;
    for (const movement of movements) {
      if (!lease.isLive()) break;
      await movement.apply();
      applied++;
    }
    return { applied, left: movements.length - applied };
  });
}
