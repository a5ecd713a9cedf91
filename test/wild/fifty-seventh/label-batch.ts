import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';
import type { PrismaClient } from '@prisma/client';
import { logger } from '@parcelhub/logging';

const log = logger.child({ module: 'label-batch' });

const LEASE_MS = 20_000;
// prisma gives up after maxWait + timeout = 7s; keep a bit for the commit
const TX_OPTIONS = { maxWait: 2_000, timeout: 5_000 } as const;
const NEEDED_PER_ORDER_MS = 10_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export class LeaseUnavailable extends Error {}
export class LeaseLost extends Error {}

export class Lease implements AsyncDisposable {
  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    private deadline: number,
  ) {}

  /** Throws when somebody else has it, so a Lease in hand is always a lease held. */
  static async acquire(redis: Redis, key: string): Promise<Lease> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
    if (reply !== 'OK') throw new LeaseUnavailable(key);
    return new Lease(redis, key, token, sentAt + LEASE_MS);
  }

  async extend(): Promise<void> {
    const sentAt = performance.now();
    const ok = await this.redis.eval(EXTEND, 1, this.key, this.token, LEASE_MS);
    if (ok !== 1) throw new LeaseLost(this.key);
    this.deadline = sentAt + LEASE_MS;
  }

  /** At least `ms` left on it, by our own clock, counted from before Redis started counting. */
  ensure(ms: number): void {
    if (this.deadline - performance.now() < ms) throw new LeaseLost(`${this.key}: too little time left`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, this.key, this.token);
    } catch (err) {
      log.warn({ err, key: this.key }, 'lease not released, it will expire');
    }
  }
}

/**
 * Gives each order of the batch the next number from the carrier's range. Numbers have to be
 * gapless, so only one process may draw from a range at a time.
 */
export async function numberBatch(redis: Redis, prisma: PrismaClient, batchId: string, carrier: string): Promise<number> {
  await using lease = await Lease.acquire(redis, `labels:range:${carrier}`);

  const orders = await prisma.order.findMany({
    where: { batchId, carrier, labelNumber: null },
    select: { id: true },
    orderBy: { createdAt: 'asc' },
  });

  let numbered = 0;
  for (const { id } of orders) {
    await lease.extend();
    lease.ensure(NEEDED_PER_ORDER_MS);

    await prisma.$transaction(async (tx) => {
      const range = await tx.carrierRange.findUniqueOrThrow({ where: { carrier } });
      if (range.next > range.last) throw new Error(`number range of ${carrier} is used up`);

      const order = await tx.order.updateMany({
        where: { id, labelNumber: null },
        data: { labelNumber: range.next },
      });
      if (order.count === 0) return; // numbered by hand meanwhile

      const moved = await tx.carrierRange.updateMany({
        where: { carrier, next: range.next },
        data: { next: range.next + 1 },
      });
      if (moved.count !== 1) throw new Error(`range of ${carrier} moved under us`);
      numbered += 1;
    }, TX_OPTIONS);
  }

  log.info({ batchId, carrier, numbered, of: orders.length }, 'batch numbered');
  return numbered;
}
