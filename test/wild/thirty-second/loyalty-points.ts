import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

export interface Account {
  memberId: string;
  balance: number;
  lifetime: number;
}

export interface AccountStore {
  find(memberId: string): Promise<Account | null>;
  /** Writes the whole row; the statement is cancelled after `timeoutMs`. */
  save(account: Account, opts: { timeoutMs: number }): Promise<void>;
}

const LOCK_TTL_MS = 10_000;
const SAVE_TIMEOUT_MS = 3_000;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

export class InsufficientPointsError extends Error {}
export class AccountBusyError extends Error {}

export class LoyaltyService {
  constructor(
    private readonly redis: Redis,
    private readonly accounts: AccountStore,
  ) {}

  async redeem(memberId: string, points: number): Promise<number> {
    const account = await this.accounts.find(memberId);
    if (!account) throw new Error(`no loyalty account for ${memberId}`);
    if (account.balance < points) throw new InsufficientPointsError(memberId);

    const lock = await this.lockAccount(memberId);
    try {
      const balance = account.balance - points;
      lock.assertTimeLeft(SAVE_TIMEOUT_MS);
      await this.accounts.save({ ...account, balance }, { timeoutMs: SAVE_TIMEOUT_MS });
      return balance;
    } finally {
      await lock.release();
    }
  }

  private async lockAccount(memberId: string) {
    const key = `lock:loyalty:${memberId}`;
    const token = randomUUID();
    const giveUpAt = performance.now() + 4_000;

    for (;;) {
      const sentAt = performance.now();
      const reply = await this.redis.set(key, token, "PX", LOCK_TTL_MS, "NX");
      if (reply === "OK") {
        const expiresAt = sentAt + LOCK_TTL_MS;
        return {
          assertTimeLeft: (ms: number) => {
            if (performance.now() + ms >= expiresAt) throw new AccountBusyError(memberId);
          },
          release: async () => {
            try {
              await this.redis.eval(UNLOCK, 1, key, token);
            } catch (err) {
              console.warn(`unlock of ${key} failed, it expires by itself`, err);
            }
          },
        };
      }
      if (performance.now() >= giveUpAt) throw new AccountBusyError(memberId);
      await sleep(50 + Math.random() * 100);
    }
  }
}
