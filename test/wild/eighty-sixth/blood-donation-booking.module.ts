import { ConflictException, Inject, Injectable, Module } from '@nestjs/common';
import Redis from 'ioredis';
import { Pool } from 'pg';
import { randomUUID } from 'node:crypto';

export const REDIS = Symbol('REDIS');
export const PG_POOL = Symbol('PG_POOL');

const LOCK_MS = 30_000;
const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

@Injectable()
export class MutexService {
  constructor(@Inject(REDIS) private readonly redis: Redis) {}

  async exclusive<T>(name: string, work: () => Promise<T>): Promise<T> {
    const key = `mutex:${name}`;
    const token = randomUUID();
    if ((await this.redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
      throw new ConflictException(`${name} is being changed`);
    }
    try {
      return await work();
    } finally {
      await this.redis.eval(UNLOCK, 1, key, token).catch(() => undefined);
    }
  }
}

/** Runs the method under a mutex named after its arguments; the class has a `mutex`. */
export function Exclusive(nameOf: (...args: any[]) => string): MethodDecorator {
  return (_target: object, _property: string | symbol, descriptor: PropertyDescriptor) => {
    const method = descriptor.value;
    descriptor.value = function (this: { mutex: MutexService }, ...args: unknown[]) {
      return this.mutex.exclusive(nameOf(...args), () => method.apply(this, args));
    };
  };
}

@Injectable()
export class DonationBookingService {
  constructor(readonly mutex: MutexService, @Inject(PG_POOL) private readonly pool: Pool) {}

  @Exclusive((donorId: string) => `donor:${donorId}`)
  async book(donorId: string, siteId: string, at: Date): Promise<string> {
    const db = await this.pool.connect();
    let broken: Error | undefined;
    try {
      await db.query('BEGIN');
      const { rows: near } = await db.query(
        `SELECT 1 FROM donation_appointments
          WHERE donor_id = $1 AND cancelled_at IS NULL
            AND at BETWEEN $2::timestamptz - interval '56 days' AND $2::timestamptz + interval '56 days' LIMIT 1`,
        [donorId, at]);
      if (near.length > 0) throw new ConflictException('donations must be 56 days apart');
      const { rows } = await db.query(
        'INSERT INTO donation_appointments (donor_id, site_id, at) VALUES ($1, $2, $3) RETURNING id',
        [donorId, siteId, at]);
      await db.query('COMMIT');
      return rows[0].id;
    } catch (err) {
      await db.query('ROLLBACK').catch((e: Error) => { broken = e; });
      throw err;
    } finally {
      db.release(broken);
    }
  }
}

@Module({
  providers: [
    {
      provide: REDIS,
      useFactory: () => new Redis(process.env.REDIS_URL!, {
        keyPrefix: `donation-api:${process.env.APP_RELEASE ?? 'dev'}:`,
        commandTimeout: 3_000,
      }),
    },
    {
      provide: PG_POOL,
      useFactory: () => new Pool({
        connectionString: process.env.DATABASE_URL,
        connectionTimeoutMillis: 3_000,
        statement_timeout: 3_000,
        query_timeout: 4_000,
      }),
    },
    MutexService,
    DonationBookingService,
  ],
  exports: [REDIS, MutexService, DonationBookingService],
})
export class DonationBookingModule {}
