import type { PrismaClient } from '@prisma/client';
import type Redis from 'ioredis';
import Redlock, { ExecutionError, type Lock } from 'redlock5';
import { counter } from '../lib/metrics';
import type { Logger } from 'pino';

export class InsufficientBalanceError extends Error {
  readonly code = 'INSUFFICIENT_BALANCE';
}

export class PayoutBusyError extends Error {
  readonly code = 'PAYOUT_BUSY';
}

export interface PayoutRequest {
  merchantId: string;
  amountCents: number;
  ibanId: string;
  requestedBy: string;
}

const LOCK_MS = 12_000;

const requested = counter('payouts_requested_total');
const refused = counter('payouts_refused_total');

export class PayoutService {
  private readonly redlock: Redlock;

  constructor(
    private readonly prisma: PrismaClient,
    redis: Redis,
    private readonly log: Logger,
  ) {
    this.redlock = new Redlock([redis], { retryCount: 15, retryDelay: 200, retryJitter: 100 });
  }

  async request(input: PayoutRequest) {
    const merchant = await this.prisma.merchant.findUniqueOrThrow({
      where: { id: input.merchantId },
      select: { id: true, availableCents: true, currency: true },
    });
    if (merchant.availableCents < input.amountCents) {
      refused.inc();
      throw new InsufficientBalanceError(`available: ${merchant.availableCents}`);
    }

    const lock = await this.lockMerchant(merchant.id);
    try {
      const payout = await this.prisma.$transaction(
        async (tx) => {
          const created = await tx.payout.create({
            data: {
              merchantId: merchant.id,
              ibanId: input.ibanId,
              amountCents: input.amountCents,
              currency: merchant.currency,
              requestedBy: input.requestedBy,
              state: 'PENDING',
            },
          });
          await tx.merchant.update({
            where: { id: merchant.id },
            data: { availableCents: merchant.availableCents - input.amountCents },
          });
          return created;
        },
        { maxWait: 2_000, timeout: 5_000 },
      );
      requested.inc();
      this.log.info({ payoutId: payout.id, merchantId: merchant.id }, 'payout requested');
      return payout;
    } finally {
      await lock
        .release()
        .catch((err: unknown) => this.log.warn({ err, merchantId: merchant.id }, 'lock release'));
    }
  }

  private async lockMerchant(merchantId: string): Promise<Lock> {
    try {
      return await this.redlock.acquire([`merchant:${merchantId}:balance`], LOCK_MS);
    } catch (err) {
      if (err instanceof ExecutionError) throw new PayoutBusyError(merchantId);
      throw err;
    }
  }
}
