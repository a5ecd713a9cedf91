import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const TTL_MS = 10_000;
const MARGIN_MS = 200;

export class CouponBusy extends Error {}

export interface CouponStore {
  usesLeft(code: string, signal: AbortSignal): Promise<number>;
  use(code: string, order: string, signal: AbortSignal): Promise<void>;
}

export class CouponRedeemer {
  constructor(private readonly client: Client, private readonly store: CouponStore) {}

  static async fromEnv(store: CouponStore): Promise<CouponRedeemer> {
    const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
    client.on("error", (err) => console.error("redis", err));
    await client.connect();
    return new CouponRedeemer(client, store);
  }

  async redeem(code: string, order: string): Promise<boolean> {
    const key = `coupon:${code}:lock`;
    const token = randomUUID();
    try {
      const deadline = await this.acquire(key, token, 15_000);
      const signal = AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now())));
      if ((await this.store.usesLeft(code, signal)) < 1) return false;
      signal.throwIfAborted();
      await this.store.use(code, order, signal);
      return true;
    } finally {
      await this.release(key, token);
    }
  }

  private async acquire(key: string, token: string, waitMs: number): Promise<number> {
    const giveUpAt = performance.now() + waitMs;
    while (performance.now() < giveUpAt) {
      const sentAt = performance.now();
      // one transaction, so that a crash in between cannot leave a lock without TTL
      const [created] = await this.client.multi().setNX(key, token).pExpire(key, TTL_MS).exec();
      if (Number(created) === 1) return sentAt + TTL_MS - MARGIN_MS;
      await sleep(100 + Math.random() * 100);
    }
    throw new CouponBusy(key);
  }

  private async release(key: string, token: string): Promise<void> {
    await this.client
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`release ${key}`, err));
  }
}
