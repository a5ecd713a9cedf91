import { Redis } from "@upstash/redis";

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? "https://eu1-sunny-mole-31337.upstash.io",
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? "local",
  // a retried SET NX would see its own first try and report "busy"
  retry: false,
});

const LEASE_SECONDS = 20;
const LEASE_MS = LEASE_SECONDS * 1000;
const SAFETY_MS = 500;

const unlockScript = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

export type Guarded<T> = { ok: true; value: T } | { ok: false; reason: "busy" | "expired" };

/**
 * At most one checkout per cart. The work gets a signal that aborts before the lease runs out;
 * serverless functions are cut off after 15 s anyway, so there is no renewal.
 */
export async function withCartLock<T>(
  cartId: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<Guarded<T>> {
  const key = `cart:${cartId}:checkout-lock`;
  const token = crypto.randomUUID();
  const startedAt = Date.now();

  let res: string | null;
  try {
    res = await redis.set(key, token, { nx: true, ex: LEASE_SECONDS });
  } catch (e) {
    await unlock(key, token);
    throw e;
  }
  if (res !== "OK") return { ok: false, reason: "busy" };

  const left = startedAt + LEASE_MS - SAFETY_MS - Date.now();
  if (left <= 0) {
    await unlock(key, token);
    return { ok: false, reason: "busy" };
  }

  const ac = new AbortController();
  const timer = setTimeout(() => ac.abort(new Error(`lease of ${key} ran out`)), left);
  try {
    const value = await work(ac.signal);
    if (ac.signal.aborted) return { ok: false, reason: "expired" };
    return { ok: true, value };
  } finally {
    clearTimeout(timer);
    await unlock(key, token);
  }
}

async function unlock(key: string, token: string) {
  try {
    await redis.eval(unlockScript, [key], [token]);
  } catch {
    // expires by itself
  }
}
