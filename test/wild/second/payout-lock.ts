import { randomUUID } from "node:crypto";
import Redis from "ioredis";

const LOCK_TTL_MS = Number(process.env.LOCK_TTL_MS ?? 15_000);
const RENEW_EVERY_MS = Math.floor(LOCK_TTL_MS / 3);
const MARGIN_MS = Math.ceil(LOCK_TTL_MS * 0.01) + 5;

export const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", {
  maxRetriesPerRequest: 1,
  commandTimeout: 2_000,
});

export class LockBusyError extends Error {
  constructor(key: string) {
    super(`could not get lock ${key}`);
    this.name = "LockBusyError";
  }
}

export class LockLostError extends Error {
  constructor(key: string) {
    super(`lock ${key} was lost while the work was running`);
    this.name = "LockLostError";
  }
}

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const RENEW = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

const sleep = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

async function drop(key: string, token: string) {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    // nothing else we can do, the ttl takes care of it
    console.warn("lock release failed", key, err);
  }
}

/**
 * Runs fn while holding `lock:<name>`. The lock is renewed in the background;
 * the signal fires as soon as we can no longer be sure that we hold it.
 */
export async function withLock<T>(
  name: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { waitMs = 10_000 }: { waitMs?: number } = {},
): Promise<T> {
  const key = `lock:${name}`;
  const giveUpAt = performance.now() + waitMs;

  let token: string;
  let validUntil = 0;
  for (;;) {
    token = randomUUID();
    const t0 = performance.now();
    let reply: string | null;
    try {
      reply = await redis.set(key, token, "PX", LOCK_TTL_MS, "NX");
    } catch (err) {
      // may have been applied although we saw an error
      await drop(key, token);
      throw err;
    }
    if (reply === "OK") {
      validUntil = t0 + LOCK_TTL_MS - MARGIN_MS;
      if (performance.now() < validUntil) break;
      await drop(key, token);
    }
    if (performance.now() >= giveUpAt) throw new LockBusyError(name);
    await sleep(50 + Math.random() * 150);
  }

  const controller = new AbortController();
  const lost = () => controller.abort(new LockLostError(name));
  let deadline = setTimeout(lost, validUntil - performance.now());
  let stopped = false;
  let inFlight: Promise<void> = Promise.resolve();

  const renew = async () => {
    const t0 = performance.now();
    try {
      const ok = await redis.eval(RENEW, 1, key, token, LOCK_TTL_MS);
      if (stopped || controller.signal.aborted) return;
      if (Number(ok) !== 1) {
        lost();
        return;
      }
      validUntil = t0 + LOCK_TTL_MS - MARGIN_MS;
      clearTimeout(deadline);
      deadline = setTimeout(lost, Math.max(0, validUntil - performance.now()));
    } catch (err) {
      // keep trying; the deadline timer aborts the work if we don't get through in time
      console.warn("lock renew failed", key, err);
    }
  };
  const ticker = setInterval(() => {
    if (controller.signal.aborted) return;
    inFlight = inFlight.then(renew);
  }, RENEW_EVERY_MS);

  try {
    const result = await fn(controller.signal);
    if (controller.signal.aborted || performance.now() >= validUntil) throw new LockLostError(name);
    return result;
  } finally {
    stopped = true;
    clearInterval(ticker);
    clearTimeout(deadline);
    await inFlight;
    await drop(key, token);
  }
}
