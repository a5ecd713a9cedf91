import { Redis } from "@upstash/redis";

const COMPARE_AND_DELETE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end
`;

export class CartBusy extends Error {
  readonly status = 409;
  constructor(cartId: string) {
    super(`another tab is checking out cart ${cartId}`);
  }
}

export interface Turn {
  /** Milliseconds that are left. At 0 nothing may be charged any more. */
  left(): number;
  readonly signal: AbortSignal;
}

export class CheckoutMutex {
  private readonly redis: Redis;

  constructor(
    private readonly leaseMs = 12_000,
    env: Record<string, string | undefined> = process.env,
  ) {
    // A repeated SET NX would be refused by our own first one, so the client must not repeat.
    this.redis = new Redis({
      url: env.UPSTASH_REDIS_REST_URL,
      token: env.UPSTASH_REDIS_REST_TOKEN,
      retry: false,
    });
  }

  async runExclusive<T>(cartId: string, work: (turn: Turn) => Promise<T>): Promise<T> {
    const key = `checkout:${cartId}`;
    const token = `t-${crypto.randomUUID()}`;
    const from = performance.now();
    let answer: string | null;
    try {
      answer = await this.redis.set(key, token, { nx: true, px: this.leaseMs });
    } catch (cause) {
      await this.give(key, token);
      throw new Error("cannot reach the lock server", { cause });
    }
    if (answer !== "OK") throw new CartBusy(cartId);

    const end = from + this.leaseMs - 250;
    const left = () => Math.max(0, end - performance.now());
    if (left() === 0) {
      await this.give(key, token);
      throw new CartBusy(cartId);
    }

    const controller = new AbortController();
    const alarm = setTimeout(() => controller.abort(new Error("checkout lease ended")), left());
    try {
      return await work({ left, signal: controller.signal });
    } finally {
      clearTimeout(alarm);
      await this.give(key, token);
    }
  }

  private async give(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(COMPARE_AND_DELETE, [key], [token]);
    } catch {
      // expires by itself
    }
  }
}
