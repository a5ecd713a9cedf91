import { Redis } from "@upstash/redis";

// three independent databases, one per region (NOT read replicas of each other)
const regions = ["IAD", "FRA", "SIN"].map(
  (r) =>
    new Redis({
      url: process.env[`UPSTASH_${r}_URL`] ?? `https://${r.toLowerCase()}-lock.upstash.io`,
      token: process.env[`UPSTASH_${r}_TOKEN`] ?? "token",
      retry: false,
    }),
);

const NEEDED = Math.floor(regions.length / 2) + 1;
const PER_REGION_MS = 900;

const script = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

async function ask<T>(fn: (r: Redis) => Promise<T>): Promise<(T | undefined)[]> {
  return Promise.all(
    regions.map(async (r) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      try {
        return await Promise.race([
          fn(r),
          new Promise<undefined>((res) => {
            timer = setTimeout(res, PER_REGION_MS, undefined);
          }),
        ]);
      } catch {
        return undefined;
      } finally {
        clearTimeout(timer);
      }
    }),
  );
}

async function free(key: string, token: string) {
  await ask((r) => r.eval(script, [key], [token]));
}

export class GloballyLockedError extends Error {}

/**
 * Seat allocation is global; everything else is regional and doesn't need this.
 */
export async function withGlobalLock<T>(
  name: string,
  ttlMs: number,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const key = `global:${name}`;
  const drift = Math.round(ttlMs * 0.01) + 2;

  for (let attempt = 0; attempt < 6; attempt++) {
    const token = crypto.randomUUID();
    const start = Date.now();
    const answers = await ask((r) => r.set(key, token, { nx: true, px: ttlMs }));
    const won = answers.filter((a) => a === "OK").length >= NEEDED;
    const left = start + ttlMs - drift - Date.now();

    if (won && left > 0) {
      const ac = new AbortController();
      const t = setTimeout(() => ac.abort(new Error(`global lock ${name} expired`)), left);
      try {
        const out = await fn(ac.signal);
        ac.signal.throwIfAborted();
        return out;
      } finally {
        clearTimeout(t);
        await free(key, token);
      }
    }

    await free(key, token);
    await new Promise((r) => setTimeout(r, 100 * (attempt + 1) + Math.random() * 300));
  }
  throw new GloballyLockedError(name);
}
