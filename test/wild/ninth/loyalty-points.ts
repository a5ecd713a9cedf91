import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { Redis } from 'iovalkey';

const valkey = new Redis(process.env.VALKEY_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 3 });
valkey.on('error', (e: Error) => console.warn('loyalty:', e.message));

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end return 0`;

interface Held {
  check(): void;
}
const current = new AsyncLocalStorage<Held>();

/** To be called by a method marked @exclusive before each of its writes. */
export function stillExclusive(): void {
  const held = current.getStore();
  if (!held) throw new Error('not inside an @exclusive method');
  held.check();
}

export class Busy extends Error {}

/** One call at a time per key over all instances; renewed while the method runs. */
export function exclusive<A extends unknown[]>(keyOf: (...args: A) => string, ttlMs = 2_500) {
  const seconds = Math.floor(ttlMs / 1000);

  return function <This, R>(method: (this: This, ...args: A) => Promise<R>, _ctx: ClassMethodDecoratorContext) {
    return async function (this: This, ...args: A): Promise<R> {
      const key = `lock:${keyOf(...args)}`;
      const token = randomUUID();
      const unlock = () => valkey.eval(UNLOCK, 1, key, token).catch((e: Error) => console.warn(`${key}: ${e.message}`));

      let until = performance.now() + ttlMs - 100;
      let got: 'OK' | null;
      try {
        got = await valkey.set(key, token, 'EX', seconds, 'NX');
      } catch (err) {
        void unlock();
        throw err;
      }
      if (got !== 'OK') throw new Busy(key);

      let lost = false;
      let busy = false;
      const timer = setInterval(async () => {
        if (busy || lost) return;
        busy = true;
        const sent = performance.now();
        try {
          const mine = await valkey.eval(RENEW, 1, key, token, seconds);
          if (mine === 1 && performance.now() < until) until = sent + ttlMs - 100;
          else lost = true;
        } catch (err) {
          console.warn(`${key}: renewal`, err);
        } finally {
          busy = false;
        }
      }, ttlMs / 3);

      const held: Held = {
        check() {
          if (performance.now() >= until) lost = true;
          if (lost) throw new Error(`${key}: lost`);
        },
      };
      try {
        return await current.run(held, () => method.apply(this, args));
      } finally {
        clearInterval(timer);
        await unlock();
      }
    };
  };
}

export interface PointsRepo {
  balance(member: string): Promise<number>;
  setBalance(member: string, points: number): Promise<void>;
}

export class LoyaltyPoints {
  readonly #repo: PointsRepo;
  constructor(repo: PointsRepo) {
    this.#repo = repo;
  }

  @exclusive((member: string, _points: number) => `points:${member}`)
  async add(member: string, points: number): Promise<number> {
    const next = (await this.#repo.balance(member)) + points;
    if (next < 0) throw new Error('not enough points');
    stillExclusive();
    await this.#repo.setBalance(member, next);
    return next;
  }
}
