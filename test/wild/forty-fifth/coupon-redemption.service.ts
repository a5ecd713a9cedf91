import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ConflictException,
  Injectable,
  Logger,
  NotFoundException,
  ServiceUnavailableException,
} from '@nestjs/common';
import { InjectRedis } from '@nestjs-modules/ioredis';
import Redis from 'ioredis';
import { PrismaService } from '../prisma/prisma.service';

const LOCK_TTL_MS = 20_000;
const ATTEMPTS = 40;

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

@Injectable()
export class CouponRedemptionService {
  private readonly logger = new Logger(CouponRedemptionService.name);
  private lockToken = '';

  constructor(
    @InjectRedis() private readonly redis: Redis,
    private readonly prisma: PrismaService,
  ) {}

  /** Redeems a coupon; at most `maxUses` customers get it, each of them once. */
  async redeem(code: string, customerId: string): Promise<{ discountCents: number }> {
    const key = `coupon:${code.trim().toUpperCase()}:lock`;
    await this.lock(key);
    try {
      return await this.prisma.$transaction(
        async (tx) => {
          const coupon = await tx.coupon.findUnique({ where: { code: code.trim().toUpperCase() } });
          if (!coupon || coupon.expiresAt < new Date()) {
            throw new NotFoundException('coupon is unknown or expired');
          }

          const uses = await tx.redemption.findMany({
            where: { couponId: coupon.id },
            select: { customerId: true },
          });
          if (uses.length >= coupon.maxUses) throw new ConflictException('coupon is used up');
          if (uses.some((u) => u.customerId === customerId)) {
            throw new ConflictException('coupon was redeemed already');
          }

          await tx.redemption.create({ data: { couponId: coupon.id, customerId } });
          await tx.customer.update({
            where: { id: customerId },
            data: { creditCents: { increment: coupon.discountCents } },
          });
          return { discountCents: coupon.discountCents };
        },
        { maxWait: 3_000, timeout: 8_000 },
      );
    } finally {
      await this.unlock(key);
    }
  }

  private async lock(key: string): Promise<void> {
    this.lockToken = randomUUID();
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const reply = await this.redis.set(key, this.lockToken, 'PX', LOCK_TTL_MS, 'NX');
      if (reply === 'OK') return;
      await sleep(80 + Math.random() * 80);
    }
    throw new ServiceUnavailableException('coupon is busy, please try again');
  }

  private async unlock(key: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE_SCRIPT, 1, key, this.lockToken);
    } catch (err) {
      this.logger.warn(`release of ${key} failed: ${(err as Error).message}`);
    }
  }
}
