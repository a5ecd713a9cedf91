import type { Redis } from "ioredis";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface ExclusiveOptions {
  ttlMs?: number;
  waitMs?: number;
}

export async function exclusive<T>(
  redis: Redis,
  name: string,
  work: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 15_000, waitMs = 5_000 }: ExclusiveOptions = {},
): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const release = () => redis.eval(RELEASE, 1, key, token).catch(() => 0);

  const giveUpAt = performance.now() + waitMs;
  let askedAt: number;
  for (;;) {
    askedAt = performance.now();
    let reply: "OK" | null;
    try {
      reply = await redis.set(key, token, "PX", ttlMs, "NX");
    } catch (err) {
      await release();
      throw err;
    }
    if (reply === "OK") {
      if (performance.now() - askedAt < ttlMs / 2) break;
      await release();
    }
    if (performance.now() >= giveUpAt) throw new LockBusyError(`${name} is locked`);
    await sleep(50 + Math.random() * 100);
  }

  const controller = new AbortController();
  const lose = () => controller.abort(new LockLostError(`lost ${name}`));
  let finished = false;
  let deadline: NodeJS.Timeout | undefined;
  const arm = (from: number) => {
    clearTimeout(deadline);
    deadline = setTimeout(lose, Math.max(0, from + ttlMs * 0.9 - performance.now()));
  };
  arm(askedAt);

  let renewing = false;
  const heartbeat = setInterval(async () => {
    if (renewing) return;
    renewing = true;
    const from = performance.now();
    try {
      const extended = await redis.eval(EXTEND, 1, key, token, ttlMs);
      if (extended !== 1) lose();
      else if (!finished && !controller.signal.aborted) arm(from);
    } catch (err) {
      console.warn(`renewing ${key} failed`, err);
    } finally {
      renewing = false;
    }
  }, ttlMs / 3);

  try {
    const result = await work(controller.signal);
    controller.signal.throwIfAborted();
    return result;
  } finally {
    finished = true;
    clearInterval(heartbeat);
    clearTimeout(deadline);
    await release();
  }
}
