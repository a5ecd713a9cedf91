import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { Prisma, PrismaClient } from '@prisma/client';
import { nanoid } from 'nanoid';
import type { Redis } from 'ioredis';

export interface BookRoom {
  roomId: string;
  guestId: string;
  from: Date;
  to: Date;
}

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

@Injectable()
export class RoomBookingService {
  private readonly log = new Logger(RoomBookingService.name);

  constructor(
    @Inject('REDIS') private readonly redis: Redis,
    private readonly prisma: PrismaClient,
  ) {}

  async book(input: BookRoom) {
    if (input.to <= input.from) throw new ConflictException('empty stay');

    const key = `booking:room:${input.roomId}`;
    const owner = nanoid();
    const got = await this.redis.set(key, owner, 'PX', 20_000, 'NX');
    if (got !== 'OK') {
      throw new ConflictException('Somebody else is booking this room, please try again');
    }

    try {
      return await this.prisma.$transaction(
        async (tx) => {
          const clash = await tx.booking.findFirst({
            where: {
              roomId: input.roomId,
              status: { not: 'CANCELLED' },
              from: { lt: input.to },
              to: { gt: input.from },
            },
            select: { id: true },
          });
          if (clash) throw new ConflictException('Room is taken for these dates');
          return tx.booking.create({ data: { ...input, status: 'CONFIRMED' } });
        },
        {
          maxWait: 2_000,
          timeout: 5_000,
          isolationLevel: Prisma.TransactionIsolationLevel.Serializable,
        },
      );
    } finally {
      await this.redis.eval(UNLOCK, 1, key, owner).catch((err: Error) => {
        this.log.warn(`could not unlock ${key}: ${err.message}`);
      });
    }
  }
}
