import { Redis } from "ioredis";

// The counter is the fence: it only ever grows, has no TTL, and its current
// value belongs to the most recent lease. The instance runs `noeviction` + AOF.
const BEGIN = `
if redis.call("exists", KEYS[1]) == 1 then return 0 end
local fence = redis.call("incr", KEYS[2])
redis.call("set", KEYS[1], tostring(fence), "PX", ARGV[1])
return fence`;

const COMMIT = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("set", KEYS[2], ARGV[2])
return 1`;

const END = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface Wallet {
  balance: number;
  holds: Record<string, number>;
}

/** Someone else works on this wallet; nothing was read or written. */
export class WalletBusyError extends Error {}
/** A later lease was granted meanwhile; our write was refused. */
export class WalletSupersededError extends Error {}

export class WalletWriter {
  readonly #redis: Redis;
  readonly #ttlMs: number;

  constructor(url = process.env.REDIS_URL ?? "redis://127.0.0.1:6379", ttlMs = 8_000) {
    // No resending after a reconnect: a command gets its own answer or it fails.
    // After such a failure the outcome is unknown, so `change` has to recognise
    // work that is already in (the hold id is there) when the call is repeated.
    this.#redis = new Redis(url, { maxRetriesPerRequest: 0, commandTimeout: 2_000 });
    this.#redis.on("error", (err) => console.error("[wallet]", err.message));
    this.#ttlMs = ttlMs;
  }

  #keys(walletId: string) {
    const base = `wallet:{${walletId}}`;
    return { lock: `${base}:lock`, fence: `${base}:fence`, data: `${base}:data` };
  }

  /**
   * Reads, changes and writes one wallet. The TTL only decides when others may
   * step in; what keeps a slow or paused writer out is the fence in COMMIT.
   */
  async update(walletId: string, change: (wallet: Wallet) => Wallet | Promise<Wallet>): Promise<Wallet> {
    const keys = this.#keys(walletId);
    const fence = Number(await this.#redis.eval(BEGIN, 2, keys.lock, keys.fence, this.#ttlMs));
    if (fence === 0) throw new WalletBusyError(`wallet ${walletId} is busy`);

    try {
      const raw = await this.#redis.get(keys.data);
      const before: Wallet = raw ? JSON.parse(raw) : { balance: 0, holds: {} };
      const after = await change(before);
      const written = await this.#redis.eval(
        COMMIT, 2, keys.fence, keys.data, String(fence), JSON.stringify(after),
      );
      if (written !== 1) {
        throw new WalletSupersededError(`lease ${fence} on wallet ${walletId} was superseded`);
      }
      return after;
    } finally {
      await this.#redis.eval(END, 1, keys.lock, String(fence)).catch((err: Error) => {
        console.warn(`[wallet] lock of ${walletId} left to its TTL: ${err.message}`);
      });
    }
  }

  async get(walletId: string): Promise<Wallet | null> {
    const raw = await this.#redis.get(this.#keys(walletId).data);
    return raw ? (JSON.parse(raw) as Wallet) : null;
  }

  async close(): Promise<void> {
    await this.#redis.quit();
  }
}
