import { BadRequestException, ConflictException, Injectable } from '@nestjs/common';
import { PrismaClient } from '@prisma/client';
import { randomUUID } from 'crypto';
import Redis from 'ioredis';

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

@Injectable()
export class LoyaltyService {
  constructor(
    private readonly redis: Redis,
    private readonly prisma: PrismaClient,
  ) {}

  private async lock(key: string): Promise<() => Promise<void>> {
    const token = randomUUID();
    for (let i = 0; i < 15; i++) {
      if ((await this.redis.set(key, token, 'PX', 20_000, 'NX')) === 'OK') {
        return async () => {
          await this.redis.eval(UNLOCK, 1, key, token);
        };
      }
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 100));
    }
    throw new ConflictException('Account is busy');
  }

  async redeem(memberId: string, rewardId: string) {
    return this.prisma.$transaction(
      async (tx) => {
        const unlock = await this.lock(`loyalty:${memberId}`);
        try {
          const reward = await tx.reward.findUniqueOrThrow({ where: { id: rewardId } });
          const sums = await tx.pointEntry.aggregate({
            where: { memberId },
            _sum: { points: true },
          });
          const balance = sums._sum.points ?? 0;
          if (balance < reward.cost) throw new BadRequestException('Not enough points');

          await tx.pointEntry.create({
            data: { memberId, points: -reward.cost, reason: `reward:${rewardId}` },
          });
          return await tx.voucher.create({
            data: { memberId, rewardId, code: randomUUID().slice(0, 8).toUpperCase() },
          });
        } finally {
          await unlock();
        }
      },
      { timeout: 10_000 },
    );
  }
}
