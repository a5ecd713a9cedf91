import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { Prisma, PrismaClient } from '@prisma/client';
import type { Redis } from 'ioredis';

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

@Injectable()
export class LockService {
  private readonly logger = new Logger(LockService.name);

  constructor(@Inject('REDIS') private readonly redis: Redis) {}

  async run<T>(key: string, opts: { ttlMs: number; waitMs: number }, fn: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    const giveUpAt = Date.now() + opts.waitMs;
    while ((await this.redis.set(key, token, 'PX', opts.ttlMs, 'NX')) !== 'OK') {
      if (Date.now() > giveUpAt) throw new ConflictException('please try again');
      await sleep(40 + Math.random() * 60);
    }
    try {
      return await fn();
    } finally {
      await this.redis
        .eval(UNLOCK, 1, key, token)
        .catch((err) => this.logger.warn(`${key} left to expire: ${err.message}`));
    }
  }
}

/** Serialises calls of a method by key; the class has to have the LockService as `locks`. */
export function Locked(
  keyOf: (...args: any[]) => string,
  opts = { ttlMs: 20_000, waitMs: 3_000 },
): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const inner = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    descriptor.value = function (this: { locks: LockService }, ...args: unknown[]) {
      return this.locks.run(`garage:lock:${keyOf(...args)}`, opts, () => inner.apply(this, args));
    };
  };
}

export interface BayRequest {
  garageId: string;
  driverId: string;
  from: Date;
  to: Date;
  needsCharger: boolean;
}

@Injectable()
export class BayAllocator {
  constructor(
    private readonly prisma: PrismaClient,
    readonly locks: LockService,
  ) {}

  async reserve(req: BayRequest) {
    return this.prisma.$transaction(
      async (tx) => {
        const driver = await tx.driver.findUniqueOrThrow({ where: { id: req.driverId } });
        const booking = await this.assignBay(tx, req);
        const hours = Math.ceil((req.to.getTime() - req.from.getTime()) / 3_600_000);
        await tx.ledgerEntry.create({
          data: { accountId: driver.accountId, bookingId: booking.id, cents: hours * booking.centsPerHour },
        });
        return booking;
      },
      { maxWait: 2_000, timeout: 10_000 },
    );
  }

  @Locked((_tx, req: BayRequest) => `bays:${req.garageId}`)
  protected async assignBay(tx: Prisma.TransactionClient, req: BayRequest) {
    const bay = await tx.bay.findFirst({
      where: {
        garageId: req.garageId,
        ...(req.needsCharger ? { charger: true } : {}),
        bookings: { none: { from: { lt: req.to }, to: { gt: req.from } } },
      },
      orderBy: [{ charger: 'asc' }, { number: 'asc' }],
    });
    if (!bay) throw new ConflictException('the garage is full at that time');
    return tx.booking.create({
      data: { bayId: bay.id, driverId: req.driverId, from: req.from, to: req.to, centsPerHour: bay.centsPerHour },
    });
  }
}
