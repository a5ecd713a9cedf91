import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';

/** Who we are, in the value of every lock we hold. Random part: container hostnames and pids repeat. */
const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;

const UNLOCK_LUA = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

interface HasRedis {
  redis: Redis;
}

const pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/**
 * Method decorator: runs the method under a lock on its first argument (the member id).
 * Locks are re-entrant, so that a decorated method can call another one on the same member.
 */
export function Exclusive(prefix: string, ttlMs = 10_000, waitMs = 5_000) {
  return function (_proto: HasRedis, name: string, descriptor: PropertyDescriptor) {
    const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;

    descriptor.value = async function (this: HasRedis, memberId: string, ...rest: unknown[]) {
      const key = `${prefix}:${memberId}:lock`;
      const giveUp = Date.now() + waitMs;

      for (;;) {
        if ((await this.redis.set(key, OWNER, 'PX', ttlMs, 'NX')) === 'OK') break;

        // Already ours: we're inside an outer @Exclusive call, which will unlock.
        if ((await this.redis.get(key)) === OWNER) {
          return original.call(this, memberId, ...rest);
        }
        if (Date.now() > giveUp) throw new Error(`${name}: member ${memberId} is locked`);
        await pause(30 + Math.random() * 70);
      }

      try {
        return await original.call(this, memberId, ...rest);
      } finally {
        await this.redis.eval(UNLOCK_LUA, 1, key, OWNER).catch((err: Error) => {
          console.warn(`unlock ${key}: ${err.message}`);
        });
      }
    };
    return descriptor;
  };
}

interface Account {
  points: number;
  history: { at: string; delta: number; ref: string }[];
}

export class LoyaltyService implements HasRedis {
  constructor(public readonly redis: Redis) {}

  private async load(memberId: string): Promise<Account> {
    const raw = await this.redis.get(`loyalty:${memberId}`);
    return raw ? (JSON.parse(raw) as Account) : { points: 0, history: [] };
  }

  private async book(memberId: string, delta: number, ref: string): Promise<number> {
    const account = await this.load(memberId);
    if (account.history.some((h) => h.ref === ref)) return account.points; // seen before
    if (account.points + delta < 0) throw new Error('not enough points');

    account.points += delta;
    account.history.push({ at: new Date().toISOString(), delta, ref });
    await this.redis.set(`loyalty:${memberId}`, JSON.stringify(account));
    return account.points;
  }

  @Exclusive('loyalty')
  async earn(memberId: string, points: number, orderId: string): Promise<number> {
    return this.book(memberId, points, `order:${orderId}`);
  }

  @Exclusive('loyalty')
  async spend(memberId: string, points: number, rewardId: string): Promise<number> {
    return this.book(memberId, -points, `reward:${rewardId}`);
  }

  @Exclusive('loyalty')
  async swapReward(memberId: string, oldId: string, refund: number, newId: string, cost: number): Promise<number> {
    await this.earn(memberId, refund, `refund-${oldId}`);
    return this.spend(memberId, cost, newId);
  }
}
