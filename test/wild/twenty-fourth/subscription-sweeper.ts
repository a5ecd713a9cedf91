import { hostname } from "node:os";
import { randomUUID } from "node:crypto";
import { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

const CAMPAIGN = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;
const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface SubscriptionStore {
  /**
   * Cancels up to `limit` lapsed subscriptions in one transaction and returns how many.
   * The transaction first does UPDATE sweeper SET epoch = :epoch WHERE epoch <= :epoch
   * and throws when that touches no row.
   */
  cancelLapsed(limit: number, epoch: number): Promise<number>;
}

interface Options {
  redis: RedisClient;
  store: SubscriptionStore;
  ttlMs?: number;
  namespace?: string;
}

interface Term {
  token: string;
  epoch: number;
  goodUntil: number;
}

export class SubscriptionSweeper {
  #o: Required<Options>;
  #term: Term | null = null;
  #timer: NodeJS.Timeout | undefined;
  #ticking: Promise<void> | null = null;
  #sweep: Promise<void> | null = null;
  #stopped = false;

  constructor(options: Options) {
    this.#o = { ttlMs: 15_000, namespace: "subs:sweeper", ...options };
  }

  start() {
    const loop = () => {
      if (!this.#ticking) this.#ticking = this.#tick().finally(() => (this.#ticking = null));
    };
    loop();
    this.#timer = setInterval(loop, this.#o.ttlMs / 4);
  }

  get isLeader() {
    return !this.#stopped && this.#term !== null && performance.now() < this.#term.goodUntil;
  }

  async #tick() {
    const { redis, ttlMs, namespace: ns } = this.#o;
    const keys = [`{${ns}}:leader`];
    // Validity runs from before the question, with a tenth kept back for clock rates and delivery.
    const goodUntil = performance.now() + ttlMs * 0.9;
    try {
      if (this.#term) {
        const kept = await redis.eval(RENEW, { keys, arguments: [this.#term.token, String(ttlMs)] });
        if (kept === 1) this.#term.goodUntil = goodUntil;
        else this.#term = null;
      } else {
        const token = `${hostname()}/${randomUUID()}`;
        const epoch = Number(
          await redis.eval(CAMPAIGN, { keys: [...keys, `{${ns}}:epoch`], arguments: [token, String(ttlMs)] }),
        );
        if (epoch > 0) this.#term = { token, epoch, goodUntil };
      }
    } catch (err) {
      console.warn("[sweeper] election round failed", err); // goodUntil keeps counting down
    }
    if (this.isLeader && !this.#sweep) {
      this.#sweep = this.#run(this.#term!)
        .catch((err) => console.error("[sweeper]", err))
        .finally(() => (this.#sweep = null));
    }
  }

  async #run(term: Term) {
    while (this.isLeader && this.#term === term) {
      const n = await this.#o.store.cancelLapsed(200, term.epoch);
      if (n === 0) return;
      console.info(`[sweeper] epoch ${term.epoch}: cancelled ${n}`);
    }
  }

  async stop() {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#ticking;
    await this.#sweep;
    if (!this.#term) return;
    await this.#o.redis
      .eval(RESIGN, { keys: [`{${this.#o.namespace}}:leader`], arguments: [this.#term.token] })
      .catch(() => undefined);
  }
}
