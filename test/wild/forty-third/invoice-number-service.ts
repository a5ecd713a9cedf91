import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable } from '@nestjs/common';
import Redis from 'ioredis';
import { Pool } from 'pg';

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

interface LockedOptions {
  /** Builds the lock key from the arguments of the decorated method. */
  key: (...args: any[]) => string;
  /** Lock lifetime in milliseconds. */
  ttl?: number;
  /** How long to wait for the lock before giving up, in milliseconds. */
  wait?: number;
}

interface HasRedis {
  readonly redis: Redis;
}

/**
 * Method decorator that serialises calls across all instances of the application.
 * The host class must expose an ioredis client as `redis`.
 */
export function Locked({ key, ttl = 30_000, wait = 5_000 }: LockedOptions): MethodDecorator {
  return (_target, _propertyKey, descriptor: PropertyDescriptor) => {
    const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;

    descriptor.value = async function (this: HasRedis, ...args: unknown[]): Promise<unknown> {
      const lockKey = `lock:${key(...args)}`;
      const token = randomUUID();
      const deadline = Date.now() + wait;

      while ((await this.redis.set(lockKey, token, 'PX', ttl, 'NX')) !== 'OK') {
        if (Date.now() >= deadline) {
          throw new ConflictException(`Resource ${lockKey} is busy`);
        }
        await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50));
      }

      try {
        return original.apply(this, args);
      } finally {
        await this.redis.eval(RELEASE_SCRIPT, 1, lockKey, token);
      }
    };

    return descriptor;
  };
}

export interface InvoiceDraft {
  customerId: string;
  totalCents: number;
}

@Injectable()
export class InvoiceNumberService implements HasRedis {
  constructor(
    @Inject('REDIS') readonly redis: Redis,
    // Configured with connectionTimeoutMillis: 2000 and query_timeout: 5000
    @Inject('PG_POOL') private readonly pool: Pool,
  ) {}

  /**
   * Invoice numbers must be consecutive per company and fiscal year (no gaps, no duplicates),
   * so a database sequence cannot be used.
   */
  @Locked({ key: (companyId: string, year: number) => `invoice-number:${companyId}:${year}` })
  async issue(companyId: string, year: number, draft: InvoiceDraft): Promise<string> {
    const { rows } = await this.pool.query<{ last: number }>(
      'SELECT COALESCE(MAX(seq), 0)::int AS last FROM invoices WHERE company_id = $1 AND year = $2',
      [companyId, year],
    );
    const seq = rows[0].last + 1;
    const number = `${year}-${String(seq).padStart(6, '0')}`;

    await this.pool.query(
      'INSERT INTO invoices (company_id, year, seq, number, customer_id, total_cents) VALUES ($1, $2, $3, $4, $5, $6)',
      [companyId, year, seq, number, draft.customerId, draft.totalCents],
    );
    return number;
  }
}
