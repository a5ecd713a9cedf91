import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type Redis from "ioredis";

/**
 * Takes all account locks in one script, or none of them. KEYS = locks..., fence counter.
 * Keys that already carry our token count as free, so a command sent twice does no harm.
 */
const TAKE_ALL = `
for i = 1, #KEYS - 1 do
  local holder = redis.call('GET', KEYS[i])
  if holder and holder ~= ARGV[1] then return 0 end
end
for i = 1, #KEYS - 1 do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return redis.call('INCR', KEYS[#KEYS])`;

const DROP_ALL = `
local n = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then n = n + redis.call('DEL', KEYS[i]) end
end
return n`;

const TTL_MS = 15_000;
const MARGIN_MS = 250;

export interface Ledger {
  balance(account: string, signal: AbortSignal): Promise<bigint>;
  /**
   * One database transaction: locks both account rows, refuses if either has last_fence > fence,
   * moves the amount and writes fence into both rows.
   */
  post(t: { from: string; to: string; cents: bigint; fence: number }, signal: AbortSignal): Promise<void>;
}

export class AccountsBusy extends Error {}

export class LedgerTransfer {
  constructor(private readonly redis: Redis, private readonly ledger: Ledger) {}

  async transfer(from: string, to: string, cents: bigint): Promise<void> {
    if (from === to) throw new Error("same account");
    await this.withAccounts([from, to], async (fence, signal) => {
      if ((await this.ledger.balance(from, signal)) < cents) throw new Error("insufficient funds");
      signal.throwIfAborted();
      await this.ledger.post({ from, to, cents, fence }, signal);
    });
  }

  private async withAccounts(
    accounts: string[], work: (fence: number, signal: AbortSignal) => Promise<void>, waitMs = 5_000,
  ): Promise<void> {
    const token = randomUUID();
    // the hash tag keeps the keys in one slot on a cluster
    const locks = [...new Set(accounts)].map((a) => `{ledger}:lock:${a}`);
    const giveUpAt = performance.now() + waitMs;
    try {
      for (;;) {
        const sentAt = performance.now();
        const fence = Number(
          await this.redis.eval(TAKE_ALL, locks.length + 1, ...locks, "{ledger}:fence", token, TTL_MS),
        );
        const left = Math.floor(sentAt + TTL_MS - MARGIN_MS - performance.now());
        if (fence > 0 && left > 0) {
          await work(fence, AbortSignal.timeout(left));
          return;
        }
        if (performance.now() >= giveUpAt) throw new AccountsBusy(accounts.join(", "));
        await sleep(40 + Math.random() * 120);
      }
    } finally {
      // also after a failed or timed-out TAKE_ALL, which may have been carried out
      await this.redis.eval(DROP_ALL, locks.length, ...locks, token).catch(() => {});
    }
  }
}
