import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { RedisClientType } from "redis";

const DEL_IF_MINE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class LockTimeoutError extends Error {}

interface Options {
  ttlMs?: number; // lifetime of the key
  maxRunMs?: number; // limit for fn, below ttlMs
  waitMs?: number;
}

export async function runExclusive<T>(
  redis: RedisClientType,
  name: string,
  fn: () => Promise<T>,
  { ttlMs = 30_000, maxRunMs = 20_000, waitMs = 5_000 }: Options = {},
): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + waitMs;

  while ((await redis.set(key, token, { NX: true, PX: ttlMs })) !== "OK") {
    if (Date.now() > giveUpAt) throw new LockTimeoutError(`waited ${waitMs} ms for ${name}`);
    await sleep(50 + Math.random() * 50);
  }

  let timer: NodeJS.Timeout | undefined;
  try {
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new LockTimeoutError(`${name} ran for more than ${maxRunMs} ms`)), maxRunMs);
    });
    return await Promise.race([fn(), limit]);
  } finally {
    clearTimeout(timer);
    await redis
      .eval(DEL_IF_MINE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`unlock ${name}`, err));
  }
}

// await runExclusive(redis, `statement:${accountId}`, async () => {
//   const entries = await loadUnbilledEntries(accountId);
//   const pdf = await renderStatement(entries);
//   await emailStatement(accountId, pdf);
//   await markBilled(entries);
// });
