import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { PrismaClient } from '@prisma/client';
import type Redis from 'ioredis';

const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

@Injectable()
export class RoomLockService {
  private readonly logger = new Logger(RoomLockService.name);
  private token = '';

  constructor(@Inject('REDIS') private readonly redis: Redis) {}

  async acquire(key: string, ttlMs: number, waitMs = 3_000): Promise<boolean> {
    const giveUpAt = Date.now() + waitMs;
    this.token = randomUUID();
    do {
      const reply = await this.redis.set(key, this.token, 'PX', ttlMs, 'NX');
      if (reply === 'OK') return true;
      await wait(80 + Math.random() * 80);
    } while (Date.now() < giveUpAt);
    return false;
  }

  async release(key: string): Promise<void> {
    const deleted = await this.redis.eval(RELEASE, 1, key, this.token);
    if (deleted !== 1) this.logger.warn(`lock ${key} was not ours any more`);
  }
}

export interface ReservationInput {
  roomId: string;
  guestId: string;
  from: Date;
  to: Date;
}

@Injectable()
export class RoomReservationService {
  constructor(
    private readonly locks: RoomLockService,
    private readonly prisma: PrismaClient,
  ) {}

  async reserve(input: ReservationInput) {
    const key = `room:${input.roomId}:calendar`;
    if (!(await this.locks.acquire(key, 10_000))) {
      throw new ConflictException('The calendar of this room is being changed, please try again');
    }
    try {
      return await this.prisma.$transaction(
        async (tx) => {
          const clash = await tx.reservation.findFirst({
            where: {
              roomId: input.roomId,
              cancelledAt: null,
              from: { lt: input.to },
              to: { gt: input.from },
            },
          });
          if (clash) throw new ConflictException('The room is taken in this period');
          return tx.reservation.create({ data: { ...input } });
        },
        { maxWait: 1_000, timeout: 4_000 },
      );
    } finally {
      await this.locks.release(key);
    }
  }
}
