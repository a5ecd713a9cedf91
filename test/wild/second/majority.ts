import { randomBytes } from "node:crypto";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

const withTimeout = <T>(p: Promise<T>, ms: number): Promise<T> => {
  let t: NodeJS.Timeout;
  return Promise.race([
    p,
    new Promise<never>((_, rej) => {
      t = setTimeout(() => rej(new Error("timeout")), ms);
    }),
  ]).finally(() => clearTimeout(t));
};

export function createMajorityLock(clients: Client[], nodeTimeout = 200) {
  const quorum = Math.floor(clients.length / 2) + 1;

  async function release(key: string, token: string): Promise<void> {
    await Promise.allSettled(
      clients.map((c) => withTimeout(c.eval(RELEASE, { keys: [key], arguments: [token] }) as Promise<unknown>, nodeTimeout)),
    );
  }

  async function acquire(key: string, ttlMs: number) {
    for (let attempt = 1; attempt <= 8; attempt++) {
      const token = randomBytes(16).toString("hex");
      const t0 = Date.now();

      const settled = await Promise.allSettled(
        clients.map((c) => withTimeout(c.set(key, token, { NX: true, PX: ttlMs }) as Promise<unknown>, nodeTimeout)),
      );
      const granted = settled.filter((s) => s.status === "fulfilled").length;
      const validity = ttlMs - (Date.now() - t0) - Math.ceil(ttlMs * 0.01) - 2;

      if (granted >= quorum && validity > 0) {
        return { key, token, expiresAt: Date.now() + validity, release: () => release(key, token) };
      }
      await release(key, token);
      await new Promise((r) => setTimeout(r, Math.random() * 100 * attempt));
    }
    return null;
  }

  return { acquire };
}
