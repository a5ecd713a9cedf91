import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable, NotFoundException } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { Redis } from 'ioredis';
import { IsNull, type Repository } from 'typeorm';
import { Transactional } from 'typeorm-transactional';
import { Copy, Loan } from './loan.entity';

const LEASE_MS = 20_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

interface HasRedis {
  readonly redis: Redis;
}

/**
 * Lets only one call at a time run for the key that `keyOf` makes of the arguments.
 * The data source has a statement timeout of three seconds.
 */
export function Exclusive<A extends unknown[]>(keyOf: (...args: A) => string) {
  return (_target: object, _name: string, descriptor: PropertyDescriptor): void => {
    const original: (...args: A) => Promise<unknown> = descriptor.value;
    descriptor.value = async function (this: HasRedis, ...args: A) {
      const key = `exclusive:${keyOf(...args)}`;
      const token = randomUUID();
      if ((await this.redis.set(key, token, 'PX', LEASE_MS, 'NX')) !== 'OK') {
        throw new ConflictException('someone is working on this copy');
      }
      try {
        return await original.apply(this, args);
      } finally {
        await this.redis.eval(RELEASE, 1, key, token).catch(() => undefined);
      }
    };
  };
}

export interface CheckOut {
  copyId: string;
  memberId: string;
  days: number;
}

@Injectable()
export class LoansService implements HasRedis {
  constructor(
    @Inject('REDIS') readonly redis: Redis,
    @InjectRepository(Copy) private readonly copies: Repository<Copy>,
    @InjectRepository(Loan) private readonly loans: Repository<Loan>,
  ) {}

  /** Hands a copy to a member. A copy has at most one open loan. */
  @Transactional()
  @Exclusive((cmd: CheckOut) => `copy:${cmd.copyId}`)
  async checkOut(cmd: CheckOut): Promise<Loan> {
    const copy = await this.copies.findOneBy({ id: cmd.copyId });
    if (!copy) throw new NotFoundException(cmd.copyId);

    const open = await this.loans.countBy({ copyId: cmd.copyId, returnedAt: IsNull() });
    if (open > 0) throw new ConflictException('copy is on loan');

    return this.loans.save(
      this.loans.create({
        copyId: cmd.copyId,
        memberId: cmd.memberId,
        dueAt: new Date(Date.now() + cmd.days * 86_400_000),
      }),
    );
  }

  /** Takes a copy back; harmless when it is already back. */
  async checkIn(copyId: string): Promise<void> {
    await this.loans.update({ copyId, returnedAt: IsNull() }, { returnedAt: new Date() });
  }
}
