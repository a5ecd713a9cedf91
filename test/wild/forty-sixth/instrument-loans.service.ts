import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable, Logger, NotFoundException } from '@nestjs/common';
import type Redis from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { PrismaService } from './prisma.service';

const LOCK_TTL_MS = 30_000;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

@Injectable()
export class LockService {
  private readonly log = new Logger(LockService.name);

  constructor(@Inject('REDIS') private readonly redis: Redis) {}

  async run<T>(name: string, fn: () => Promise<T>): Promise<T> {
    const key = `lock:${name}`;
    const token = randomUUID();
    for (let attempt = 0; ; attempt++) {
      if ((await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK') break;
      if (attempt === 8) throw new ConflictException(`${name} is busy`);
      await sleep(80 + Math.random() * 120);
    }
    try {
      return await fn();
    } finally {
      await this.redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
        this.log.warn(`${key} not released: ${err.message}`);
      });
    }
  }
}

export interface LoanRequest {
  instrumentId: string;
  musicianId: string;
  from: Date;
  to: Date;
}

@Injectable()
export class InstrumentLoansService {
  constructor(
    private readonly prisma: PrismaService,
    private readonly locks: LockService,
  ) {}

  /** An instrument is lent to one musician at a time. */
  async lend(req: LoanRequest): Promise<{ loanId: string }> {
    return this.prisma.$transaction(
      async (tx) =>
        this.locks.run(`instrument:${req.instrumentId}`, async () => {
          const instrument = await tx.instrument.findUnique({ where: { id: req.instrumentId } });
          if (!instrument) throw new NotFoundException('instrument');
          if (instrument.inWorkshop) throw new ConflictException('instrument is in the workshop');

          const overlapping = await tx.loan.count({
            where: {
              instrumentId: req.instrumentId,
              from: { lt: req.to },
              to: { gt: req.from },
              returnedAt: null,
            },
          });
          if (overlapping > 0) throw new ConflictException('instrument is lent in that period');

          const loan = await tx.loan.create({
            data: {
              instrumentId: req.instrumentId,
              musicianId: req.musicianId,
              from: req.from,
              to: req.to,
            },
          });
          await tx.insuranceNotice.create({
            data: { loanId: loan.id, valueCents: instrument.valueCents },
          });
          return { loanId: loan.id };
        }),
      { timeout: 10_000, maxWait: 3_000, isolationLevel: 'ReadCommitted' },
    );
  }
}
