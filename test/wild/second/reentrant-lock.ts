import { randomUUID } from "node:crypto";
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379");

interface Held {
  token: string;
  depth: number;
  until: number;
}

// locks this process holds; nested calls must not wait for themselves
const held = new Map<string, Held>();

const TTL = 30_000;

const lua = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function enter(key: string): Promise<void> {
  const mine = held.get(key);
  if (mine && Date.now() < mine.until) {
    mine.depth++;
    return;
  }
  for (let i = 0; i < 50; i++) {
    const token = randomUUID();
    const t = Date.now();
    if ((await redis.set(key, token, "PX", TTL, "NX")) === "OK") {
      held.set(key, { token, depth: 1, until: t + TTL - 300 });
      return;
    }
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 100));
  }
  throw new Error(`lock ${key}: timeout`);
}

async function leave(key: string): Promise<void> {
  const mine = held.get(key);
  if (!mine || --mine.depth > 0) return;
  held.delete(key);
  await redis.eval(lua, 1, key, mine.token);
}

/** Reentrant: a function that holds the lock may call another one that takes it again. */
export async function withReentrantLock<T>(name: string, fn: () => Promise<T>): Promise<T> {
  const key = `rl:${name}`;
  await enter(key);
  try {
    return await fn();
  } finally {
    await leave(key);
  }
}
