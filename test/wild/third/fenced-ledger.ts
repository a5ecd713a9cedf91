import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";

const redis = new Redis(process.env.LEDGER_REDIS_URL ?? process.env.REDIS_URL ?? "redis://localhost:6379");

const ACQUIRE = `
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return redis.call("INCR", KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

// A balance remembers the highest fence that it has seen and takes nothing from below it.
const WRITE = `
local seen = tonumber(redis.call("HGET", KEYS[1], "fence") or "0")
if tonumber(ARGV[1]) < seen then
  return 0
end
redis.call("HSET", KEYS[1], "fence", ARGV[1], "balance", ARGV[2])
return 1`;

export class StaleFenceError extends Error {}

export interface Lease {
  readonly account: string;
  readonly token: string;
  readonly fence: number;
}

export async function openLease(account: string, ttlMs = 10_000): Promise<Lease | null> {
  const token = randomUUID();
  const fence = Number(
    await redis.eval(ACQUIRE, 2, `{${account}}:lease`, `{${account}}:fence`, token, String(ttlMs)),
  );
  return fence > 0 ? { account, token, fence } : null;
}

export async function closeLease(lease: Lease): Promise<void> {
  await redis.eval(RELEASE, 1, `{${lease.account}}:lease`, lease.token);
}

/** @throws StaleFenceError if a later lease has written already */
export async function writeBalance(lease: Lease, balance: number): Promise<void> {
  const taken = await redis.eval(WRITE, 1, `{${lease.account}}:balance`, String(lease.fence), String(balance));
  if (taken !== 1) throw new StaleFenceError(`fence ${lease.fence} of ${lease.account} is over`);
}
