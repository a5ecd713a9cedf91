import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const TTL = 10_000;

const SCRIPTS = {
  extend: `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`,
  release: `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`,
};

export class BusyError extends Error {}

class CouponLock {
  readonly #lost = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #fuse: NodeJS.Timeout | undefined;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
  ) {}

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  static async acquire(redis: Redis, code: string): Promise<CouponLock> {
    const lock = new CouponLock(redis, `coupon:${code}:lock`, randomUUID());
    for (let wait = 25; ; wait = Math.min(wait * 2, 800)) {
      const sentAt = performance.now();
      if ((await redis.set(lock.key, lock.token, "PX", TTL, "NX")) === "OK") {
        lock.#arm(sentAt);
        lock.#timer = setInterval(() => void lock.#extend(), TTL / 4);
        return lock;
      }
      await sleep(wait + Math.random() * wait);
    }
  }

  #arm(from: number): void {
    clearTimeout(this.#fuse);
    this.#fuse = setTimeout(() => this.#lose("ran out"), Math.max(0, from + TTL - 1_500 - performance.now()));
  }

  #lose(why: string): void {
    clearInterval(this.#timer);
    clearTimeout(this.#fuse);
    this.#lost.abort(new Error(`${this.key} ${why}`));
  }

  async #extend(): Promise<void> {
    const sentAt = performance.now();
    try {
      const kept = await this.redis.eval(SCRIPTS.extend, 1, this.key, this.token, TTL);
      if (this.signal.aborted) return;
      if (kept === 1) this.#arm(sentAt);
      else this.#lose("was taken over");
    } catch (err) {
      console.warn("extending %s failed", this.key, err);
    }
  }

  async release(): Promise<void> {
    this.#lose("was released");
    try {
      await this.redis.eval(SCRIPTS.release, 1, this.key, this.token);
    } catch (err) {
      console.warn("releasing %s failed", this.key, err);
    }
  }
}

export interface CouponStore {
  /** Adds the redemption unless the coupon's limit is reached, in one statement. */
  redeem(code: string, orderId: string, signal: AbortSignal): Promise<{ discountCents: number } | null>;
}

const tooLate = (ms: number) =>
  sleep(ms).then((): never => {
    throw new BusyError("this coupon is being redeemed, please try again");
  });

export async function redeemCoupon(redis: Redis, store: CouponStore, code: string, orderId: string) {
  const lock = await Promise.race([CouponLock.acquire(redis, code), tooLate(3_000)]);
  try {
    return await store.redeem(code, orderId, lock.signal);
  } finally {
    await lock.release();
  }
}
