import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";

/**
 * The bank lets us have one session at a time, so the workers share a single
 * slot. Slots are members of a sorted set, scored with the time they end.
 */
const SLOTS = 1;
const SLOT_MS = 45_000;
const DOWNLOAD_MS = 20_000;

const ENTER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const APPEND = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then return -1 end
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then return -2 end
for i = 4, #ARGV do redis.call('XADD', KEYS[3], '*', 'entry', ARGV[i]) end
redis.call('SET', KEYS[2], ARGV[3])
return #ARGV - 3`;

export interface BankApi {
  statements(account: string, since: string, signal: AbortSignal): Promise<{ entries: object[]; cursor: string }>;
}

export interface BankSessionDeps {
  redis: Redis;
  bank: BankApi;
  logger: Pick<Console, "info" | "warn" | "error">;
}

export function bankStatements({ redis, bank, logger }: BankSessionDeps) {
  const slots = "{bank}:sessions";

  async function inSession<T>(work: (slot: string, endsAt: number) => Promise<T>): Promise<T | undefined> {
    const slot = randomUUID();
    const endsAt = performance.now() + SLOT_MS - 5_000;
    try {
      const entered = await redis.eval(ENTER, 1, slots, slot, SLOTS, SLOT_MS);
      if (entered !== 1) return undefined;
      return await work(slot, endsAt);
    } finally {
      await redis.zrem(slots, slot).catch((err) => logger.warn("slot stays until it ends", err));
    }
  }

  /** Queue handler: fetches what is new on an account; false means "put it back". */
  return async function onFetchStatements(job: { account: string }): Promise<boolean> {
    try {
      const added = await inSession(async (slot, endsAt) => {
        const cursorKey = `{bank}:cursor:${job.account}`;
        const cursor = (await redis.get(cursorKey)) ?? "";
        const left = Math.floor(Math.min(DOWNLOAD_MS, endsAt - performance.now()));
        if (left < 1_000) throw new Error("too little time left for a session");
        const page = await bank.statements(job.account, cursor, AbortSignal.timeout(left));
        if (page.entries.length === 0) return 0;

        const lines = page.entries.map((e) => JSON.stringify(e));
        const count = Number(
          await redis.eval(
            APPEND,
            3,
            slots,
            cursorKey,
            `{bank}:entries:${job.account}`,
            slot,
            cursor,
            page.cursor,
            ...lines,
          ),
        );
        if (count < 0) throw new Error(`statements of ${job.account} were not stored (${count})`);
        return count;
      });
      if (added === undefined) return false;
      logger.info(`${added} new entries on ${job.account}`);
      return true;
    } catch (err) {
      logger.error("fetching statements failed", err);
      return false;
    }
  };
}
