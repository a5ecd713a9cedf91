import { BadRequestException, ConflictException, Injectable, Logger, NotFoundException } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { redis } from '../config/redis';

export interface TopUpDto {
  amountCents: number;
  currency: string;
  reference: string;
}

interface Wallet {
  id: string;
  status: 'active' | 'frozen';
  currency: string;
  balanceCents: number;
}

const LOCK_TTL = 5_000;
const LOCK_WAIT = 4_000;
const MAX_BALANCE = 500_000;

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1]
  then return redis.call("del", KEYS[1])
  else return 0 end`;

// Balance and ledger entry are written together, and only by the holder of the lock.
const COMMIT = `
  if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call("hset", KEYS[2], "balanceCents", ARGV[2])
  redis.call("rpush", KEYS[3], ARGV[3])
  return 1`;

@Injectable()
export class WalletService {
  private readonly logger = new Logger(WalletService.name);

  async topUp(walletId: string, dto: TopUpDto): Promise<Wallet> {
    if (!Number.isInteger(dto.amountCents) || dto.amountCents <= 0) {
      throw new BadRequestException('amountCents must be a positive integer');
    }
    const wallet = await this.load(walletId);
    if (wallet.status !== 'active') throw new ConflictException('wallet is frozen');
    if (wallet.currency !== dto.currency) throw new BadRequestException('currency mismatch');

    return this.locked(walletId, async (token) => {
      const balanceCents = wallet.balanceCents + dto.amountCents;
      if (balanceCents > MAX_BALANCE) throw new ConflictException('balance limit reached');
      await this.commit(walletId, token, balanceCents, dto.amountCents, dto.reference);
      return { ...wallet, balanceCents };
    });
  }

  private async load(walletId: string): Promise<Wallet> {
    const raw = await redis.hgetall(`wallet:{${walletId}}`);
    if (!raw.currency) throw new NotFoundException(`wallet ${walletId}`);
    return {
      id: walletId,
      status: raw.status === 'frozen' ? 'frozen' : 'active',
      currency: raw.currency,
      balanceCents: Number(raw.balanceCents ?? 0),
    };
  }

  private async commit(id: string, token: string, balanceCents: number, delta: number, reference: string) {
    const entry = JSON.stringify({ id: randomUUID(), delta, balanceCents, reference, at: Date.now() });
    const ok = await redis.eval(
      COMMIT,
      3,
      `wallet:{${id}}:lock`,
      `wallet:{${id}}`,
      `wallet:{${id}}:ledger`,
      token,
      balanceCents,
      entry,
    );
    if (ok !== 1) throw new ConflictException('wallet lock expired, try again');
  }

  private async locked<T>(walletId: string, fn: (token: string) => Promise<T>): Promise<T> {
    const key = `wallet:{${walletId}}:lock`;
    const token = randomUUID();
    const giveUp = Date.now() + LOCK_WAIT;

    while ((await redis.set(key, token, 'PX', LOCK_TTL, 'NX')) !== 'OK') {
      if (Date.now() > giveUp) throw new ConflictException('wallet is busy');
      await sleep(30 + Math.random() * 50);
    }
    try {
      return await fn(token);
    } finally {
      await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
        this.logger.warn(`release ${key}: ${err.message}`);
      });
    }
  }
}
