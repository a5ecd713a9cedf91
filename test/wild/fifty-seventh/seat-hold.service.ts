import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { addMinutes } from 'date-fns';
import type { RedisClientType } from 'redis';
import { PrismaService } from '../prisma/prisma.service';
import { REDIS } from '../redis/redis.module';

export interface HoldRequest {
  showId: string;
  seats: string[];
  customerId: string;
}

@Injectable()
export class SeatHoldService {
  private readonly logger = new Logger(SeatHoldService.name);
  private readonly ttlMs: number;

  constructor(
    @Inject(REDIS) private readonly redis: RedisClientType,
    private readonly prisma: PrismaService,
    config: ConfigService,
  ) {
    this.ttlMs = config.get<number>('SEAT_LOCK_TTL_MS', 15_000);
  }

  async hold(req: HoldRequest) {
    const lockKey = `show:${req.showId}:seats`;
    const token = await this.lock(lockKey);
    if (!token) {
      throw new ConflictException('Seats are being booked right now, please try again');
    }

    try {
      // 1s + 6s at most, the lock has 15
      return await this.prisma.$transaction(
        async (tx) => {
          const taken = await tx.seatHold.findMany({
            where: { showId: req.showId, seat: { in: req.seats }, expiresAt: { gt: new Date() } },
            select: { seat: true },
          });
          if (taken.length > 0) {
            throw new ConflictException({ message: 'Seats taken', seats: taken.map((t) => t.seat) });
          }
          const expiresAt = addMinutes(new Date(), 10);
          await tx.seatHold.createMany({
            data: req.seats.map((seat) => ({ showId: req.showId, seat, customerId: req.customerId, expiresAt })),
          });
          return { seats: req.seats, expiresAt };
        },
        { maxWait: 1_000, timeout: 6_000 },
      );
    } finally {
      await this.unlock(lockKey, token);
    }
  }

  private async lock(key: string): Promise<string | null> {
    const token = randomUUID();
    for (let attempt = 0; attempt < 10; attempt++) {
      const res = await this.redis.set(key, token, { NX: true, PX: this.ttlMs });
      if (res === 'OK') return token;
      await new Promise((r) => setTimeout(r, 80 + Math.random() * 80));
    }
    return null;
  }

  /** Releases the lock, but only if it still belongs to us. */
  private async unlock(key: string, token: string): Promise<void> {
    try {
      const owner = await this.redis.get(key);
      if (owner === token) {
        await this.redis.del(key);
      } else {
        this.logger.warn(`Lock ${key} expired before it was released`);
      }
    } catch (err) {
      this.logger.error(`Could not release ${key}`, err instanceof Error ? err.stack : String(err));
    }
  }
}
