import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { BadRequestException, ConflictException, Inject, Injectable, Logger, ServiceUnavailableException } from '@nestjs/common';
import type Redis from 'ioredis';
import { DataSource } from 'typeorm';
import { REDIS } from '../redis/redis.module';
import { Transfer } from './transfer.entity';
import { Wallet } from './wallet.entity';

type Held = { key: string; token: string };
export type TransferInput = { id: string; fromId: string; toId: string; amountCents: number };

const LOCK_TTL_MS = 40_000;
const MAX_WAIT_MS = 5_000;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

@Injectable()
export class WalletTransfersService {
  private readonly logger = new Logger(WalletTransfersService.name);

  constructor(
    @Inject(REDIS) private readonly redis: Redis,
    private readonly dataSource: DataSource,
  ) {}

  async transfer(input: TransferInput): Promise<Transfer> {
    if (input.fromId === input.toId) throw new BadRequestException('same wallet');
    if (!Number.isSafeInteger(input.amountCents) || input.amountCents <= 0) {
      throw new BadRequestException('invalid amount');
    }

    const keys = [input.fromId, input.toId].sort().map((id) => `lock:wallet:${id}`);
    const deadline = Date.now() + MAX_WAIT_MS;
    const held: Held[] = [];
    try {
      for (const key of keys) held.push(await this.acquire(key, deadline));
      return await this.book(input);
    } finally {
      for (const lock of held.reverse()) await this.release(lock);
    }
  }

  private async book(input: TransferInput): Promise<Transfer> {
    return this.dataSource.transaction(async (manager) => {
      await manager.query(`SET LOCAL statement_timeout = '5s'`);

      const inserted = await manager
        .createQueryBuilder()
        .insert()
        .into(Transfer)
        .values(input)
        .orIgnore()
        .returning('id')
        .execute();
      const transfer = await manager.findOneByOrFail(Transfer, { id: input.id });
      if (inserted.raw.length === 0) {
        const same =
          transfer.fromId === input.fromId &&
          transfer.toId === input.toId &&
          Number(transfer.amountCents) === input.amountCents;
        if (!same) throw new ConflictException('transfer id already used');
        return transfer;
      }

      const debit = await manager
        .createQueryBuilder()
        .update(Wallet)
        .set({ balanceCents: () => 'balance_cents - :amount' })
        .where('id = :id AND balance_cents >= :amount')
        .setParameters({ id: input.fromId, amount: input.amountCents })
        .execute();
      if (debit.affected !== 1) throw new ConflictException('insufficient funds');

      const credit = await manager
        .createQueryBuilder()
        .update(Wallet)
        .set({ balanceCents: () => 'balance_cents + :amount' })
        .where('id = :id')
        .setParameters({ id: input.toId, amount: input.amountCents })
        .execute();
      if (credit.affected !== 1) throw new BadRequestException('unknown wallet');
      return transfer;
    });
  }

  private async acquire(key: string, deadline: number): Promise<Held> {
    const token = randomUUID();
    for (;;) {
      const reply = await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
      if (reply === 'OK') return { key, token };
      if (Date.now() >= deadline) throw new ServiceUnavailableException('wallet is busy');
      await sleep(50 + Math.random() * 100);
    }
  }

  private async release({ key, token }: Held): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      this.logger.warn(`could not release ${key}: ${(err as Error).message}`);
    }
  }
}
