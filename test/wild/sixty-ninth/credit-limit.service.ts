import { Inject, Injectable, Logger, OnModuleDestroy, ServiceUnavailableException } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { REDIS } from '../config/redis';

export interface CreditAccount {
  customerId: string;
  limitCents: number;
  usedCents: number;
  holds: { orderId: string; amountCents: number; at: string }[];
}

// Services call each other while they hold the account (order -> credit -> credit note),
// so taking a lock we own already succeeds and counts one level deeper.
const ENTER = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
local depth = redis.call('HINCRBY', KEYS[1], 'depth', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return depth
`;

const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return -1
end
local depth = redis.call('HINCRBY', KEYS[1], 'depth', -1)
if depth <= 0 then
  redis.call('DEL', KEYS[1])
end
return depth
`;

@Injectable()
export class CreditLimitService implements OnModuleDestroy {
  private readonly logger = new Logger(CreditLimitService.name);
  private readonly ownerId = `${hostname()}-${process.pid}-${randomUUID()}`;
  private readonly ttlMs = 30_000;
  private closing = false;

  constructor(@Inject(REDIS) private readonly redis: Redis) {}

  onModuleDestroy() {
    this.closing = true;
  }

  /** Puts an amount on hold for an order. Returns false when the limit does not allow it. */
  async hold(customerId: string, orderId: string, amountCents: number): Promise<boolean> {
    return this.exclusive(customerId, async () => {
      const account = await this.load(customerId);
      if (account.holds.some((h) => h.orderId === orderId)) return true;
      if (account.usedCents + amountCents > account.limitCents) {
        this.logger.log(`limit of ${customerId} exceeded by order ${orderId}`);
        return false;
      }
      account.usedCents += amountCents;
      account.holds.push({ orderId, amountCents, at: new Date().toISOString() });
      await this.save(account);
      return true;
    });
  }

  async replaceHold(customerId: string, oldOrderId: string, newOrderId: string, amountCents: number): Promise<boolean> {
    return this.exclusive(customerId, async () => {
      await this.drop(customerId, oldOrderId);
      return this.hold(customerId, newOrderId, amountCents);
    });
  }

  async drop(customerId: string, orderId: string): Promise<void> {
    await this.exclusive(customerId, async () => {
      const account = await this.load(customerId);
      const hold = account.holds.find((h) => h.orderId === orderId);
      if (!hold) return;
      account.usedCents -= hold.amountCents;
      account.holds = account.holds.filter((h) => h !== hold);
      await this.save(account);
    });
  }

  private async exclusive<T>(customerId: string, fn: () => Promise<T>): Promise<T> {
    const key = `credit:lock:${customerId}`;
    const giveUp = Date.now() + 8_000;
    for (;;) {
      if (this.closing) throw new ServiceUnavailableException('shutting down');
      const depth = Number(await this.redis.eval(ENTER, 1, key, this.ownerId, this.ttlMs));
      if (depth > 0) break;
      if (Date.now() > giveUp) throw new ServiceUnavailableException(`credit account ${customerId} is busy`);
      await sleep(40 + Math.random() * 60);
    }
    try {
      return await fn();
    } finally {
      const left = await this.redis.eval(LEAVE, 1, key, this.ownerId).catch((e: Error) => e.message);
      if (left === -1) this.logger.warn(`lock on ${customerId} had run out`);
    }
  }

  private async load(customerId: string): Promise<CreditAccount> {
    const raw = await this.redis.get(`credit:account:${customerId}`);
    if (!raw) {
      return { customerId, limitCents: Number(process.env.DEFAULT_CREDIT_CENTS ?? 50_000), usedCents: 0, holds: [] };
    }
    return JSON.parse(raw) as CreditAccount;
  }

  private async save(account: CreditAccount): Promise<void> {
    await this.redis.set(`credit:account:${account.customerId}`, JSON.stringify(account));
  }
}
