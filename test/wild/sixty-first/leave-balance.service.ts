import { randomUUID } from 'node:crypto';
import { BadRequestException, ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { Pool } from 'pg';
import type { RedisClientType } from 'redis';

const LOCK_TTL_MS = 30_000;
const WORK_BUDGET_MS = 20_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface HasRedis {
  redis: RedisClientType;
}

const logger = new Logger('Locked');

export function Locked<A extends unknown[]>(keyOf: (...args: A) => string) {
  return function <R>(
    _target: object,
    name: string,
    descriptor: TypedPropertyDescriptor<(...args: A) => Promise<R>>,
  ): void {
    const original = descriptor.value!;

    descriptor.value = async function (this: HasRedis, ...args: A): Promise<R> {
      const key = `lock:${keyOf(...args)}`;
      const token = randomUUID();
      const sentAt = performance.now();
      const reply = await this.redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
      if (reply !== 'OK') throw new ConflictException(`${name} is already in progress`);

      try {
        if (performance.now() - sentAt > LOCK_TTL_MS - WORK_BUDGET_MS) {
          throw new ConflictException(`${name} could not start in time`);
        }
        return original.apply(this, args) as Promise<R>;
      } finally {
        try {
          await this.redis.eval(RELEASE, { keys: [key], arguments: [token] });
        } catch (err) {
          logger.warn(`release of ${key} failed: ${(err as Error).message}`);
        }
      }
    } as typeof original;
  };
}

export interface LeaveRequest {
  employeeId: string;
  from: string;
  to: string;
  days: number;
}

@Injectable()
export class LeaveBalanceService {
  private readonly log = new Logger(LeaveBalanceService.name);
  private readonly pool = new Pool({
    connectionString: process.env.HR_DATABASE_URL,
    connectionTimeoutMillis: 2_000,
    statement_timeout: 3_000,
  });

  constructor(@Inject('REDIS') readonly redis: RedisClientType) {}

  @Locked((request: LeaveRequest) => `leave:${request.employeeId}`)
  async book(request: LeaveRequest): Promise<{ remaining: number }> {
    const { employeeId, from, to, days } = request;
    const { rows } = await this.pool.query<{ days_left: number }>(
      'SELECT days_left FROM leave_balances WHERE employee_id = $1',
      [employeeId],
    );
    if (!rows[0]) throw new BadRequestException(`no leave balance for ${employeeId}`);
    const remaining = rows[0].days_left - days;
    if (remaining < 0) throw new BadRequestException('not enough leave left');

    await this.pool.query(
      `WITH booked AS (
         INSERT INTO leave_bookings (employee_id, starts_on, ends_on, days) VALUES ($1, $2, $3, $4)
       )
       UPDATE leave_balances SET days_left = $5 WHERE employee_id = $1`,
      [employeeId, from, to, days, remaining],
    );
    this.log.log(`booked ${days} days for ${employeeId}, ${remaining} left`);
    return { remaining };
  }

  @Locked((employeeId: string, _days: number) => `leave:${employeeId}`)
  async carryOver(employeeId: string, days: number): Promise<void> {
    await this.pool.query(
      'UPDATE leave_balances SET days_left = $2, carried_over_at = now() WHERE employee_id = $1',
      [employeeId, days],
    );
  }
}
