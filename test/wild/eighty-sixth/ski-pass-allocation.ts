import type { Redis } from 'ioredis';
import type { Knex } from 'knex';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { db, redis } from './infrastructure';

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface Lease {
  assertHeld(): void;
  release(): Promise<void>;
}

export interface LeaseProvider {
  acquire(resource: string): Promise<Lease>;
}

export class SoldOutError extends Error {}
export class BusyError extends Error {}

export class RedisLeaseProvider implements LeaseProvider {
  constructor(
    private readonly client: Redis,
    private readonly ttlMs = 20_000,
    private readonly waitMs = 5_000,
  ) {}

  async acquire(resource: string): Promise<Lease> {
    const key = `ski-pass:lease:${resource}`;
    const token = randomUUID();
    const giveUpAt = performance.now() + this.waitMs;
    for (;;) {
      const askedAt = performance.now();
      if ((await this.client.set(key, token, 'PX', this.ttlMs, 'NX')) === 'OK') {
        const endsAt = askedAt + this.ttlMs - 3_000;
        return {
          assertHeld: () => {
            if (performance.now() > endsAt) throw new BusyError(`lease on ${resource} ran out`);
          },
          release: async () => {
            await this.client.eval(RELEASE, 1, key, token).catch(() => undefined);
          },
        };
      }
      if (performance.now() > giveUpAt) throw new BusyError(resource);
      await sleep(60 + Math.random() * 90);
    }
  }
}

export interface PassRequest {
  resortId: number;
  day: string;
  guestId: number;
  passes: number;
}

export class PassAllocationService {
  constructor(private readonly knex: Knex, private readonly leases: LeaseProvider) {}

  async allocate(request: PassRequest): Promise<number> {
    return this.knex.transaction(async (trx) => {
      await trx.raw("SET LOCAL statement_timeout = '2s'");
      const capacity = await this.capacityOf(trx, request.resortId, request.day);
      const orderId = await this.placeOrder(trx, request, capacity);
      await trx('guest_ledger').insert({ guest_id: request.guestId, order_id: orderId, kind: 'pass-order' });
      await trx('outbox').insert({ topic: 'pass-ordered', payload: JSON.stringify({ orderId, ...request }) });
      return orderId;
    });
  }

  private async placeOrder(trx: Knex.Transaction, request: PassRequest, capacity: number): Promise<number> {
    const { resortId, day, guestId, passes } = request;
    const lease = await this.leases.acquire(`${resortId}:${day}`);
    try {
      const sold = await this.soldOn(trx, resortId, day);
      if (sold + passes > capacity) throw new SoldOutError(`${capacity - sold} passes left on ${day}`);

      lease.assertHeld();
      const [row] = await trx('pass_orders')
        .insert({ resort_id: resortId, day, guest_id: guestId, passes })
        .returning('id');
      return row.id as number;
    } finally {
      await lease.release();
    }
  }

  private async capacityOf(trx: Knex.Transaction, resortId: number, day: string): Promise<number> {
    const row = await trx('day_capacity').where({ resort_id: resortId, day }).first('passes');
    return row?.passes ?? 0;
  }

  private async soldOn(trx: Knex.Transaction, resortId: number, day: string): Promise<number> {
    const row = await trx('pass_orders')
      .where({ resort_id: resortId, day, cancelled: false })
      .sum({ passes: 'passes' })
      .first();
    return Number(row?.passes ?? 0);
  }
}

export const passAllocation = new PassAllocationService(db, new RedisLeaseProvider(redis));
