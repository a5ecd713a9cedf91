import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable, Logger, UnprocessableEntityException } from '@nestjs/common';
import type { RedisClientType } from 'redis';

const LOCK_TTL_MS = 10_000;
const ILS_TIMEOUT_MS = 4_500;
const MAX_RENEWALS = 3;

interface Loan {
  id: string;
  renewals: number;
  dueDate: string;
  reserved: boolean;
}

@Injectable()
export class LoanRenewalService {
  private readonly logger = new Logger(LoanRenewalService.name);
  private readonly ilsUrl = process.env.ILS_URL ?? 'http://ils.local';

  constructor(@Inject('REDIS_CLIENT') private readonly redis: RedisClientType) {}

  async renew(loanId: string): Promise<Loan> {
    const key = `loan:${loanId}:lock`;
    const token = randomUUID();

    const acquired = await this.redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
    if (acquired !== 'OK') {
      throw new ConflictException('This loan is being renewed already');
    }

    try {
      const loan = await this.call<Loan>('GET', `/loans/${loanId}`);
      if (loan.reserved) {
        throw new UnprocessableEntityException('Another reader has reserved this item');
      }
      if (loan.renewals >= MAX_RENEWALS) {
        throw new UnprocessableEntityException('No renewals left');
      }
      const renewed = await this.call<Loan>('POST', `/loans/${loanId}/renewals`);
      this.logger.log(`loan ${loanId} renewed until ${renewed.dueDate}`);
      return renewed;
    } finally {
      await this.unlock(key, token);
    }
  }

  /** Only removes the lock if it is still ours. */
  private async unlock(key: string, token: string): Promise<void> {
    try {
      const current = await this.redis.get(key);
      if (current === token) {
        await this.redis.del(key);
      }
    } catch (err) {
      this.logger.warn(`could not unlock ${key}: ${(err as Error).message}`);
    }
  }

  private async call<T>(method: string, path: string): Promise<T> {
    const res = await fetch(`${this.ilsUrl}${path}`, {
      method,
      headers: { accept: 'application/json', 'x-api-key': process.env.ILS_KEY ?? '' },
      signal: AbortSignal.timeout(ILS_TIMEOUT_MS),
    });
    if (!res.ok) throw new Error(`ILS ${method} ${path}: ${res.status}`);
    return (await res.json()) as T;
  }
}
