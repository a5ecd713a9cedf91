import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

/** The licence of the image library allows this many renderings at a time over all hosts. */
export const MAX_RENDERERS = Number(process.env.MAX_RENDERERS ?? 4);

// Sorted set: member = slot id, score = end of its lease by the server's clock.
const ENTER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) <= tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[3] * 2)
  return 1
end
return 0`;

export async function openClient(): Promise<Client> {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on("error", (err) => console.error("redis:", err));
  await client.connect();
  return client;
}

export class SlotTimeout extends Error {}

export async function withRenderSlot<T>(
  client: Client,
  render: (signal: AbortSignal) => Promise<T>,
  { key = "thumbnails:slots", limit = MAX_RENDERERS, leaseMs = 20_000, waitMs = 60_000 } = {},
): Promise<T> {
  const giveUpAt = performance.now() + waitMs;
  const id = randomUUID();
  try {
    for (;;) {
      const sentAt = performance.now();
      const entered = await client.eval(ENTER, {
        keys: [key],
        arguments: [id, String(limit), String(leaseMs)],
      });
      const left = Math.floor(sentAt + leaseMs - 200 - performance.now());
      if (entered === 1 && left > 0) return await render(AbortSignal.timeout(left));
      if (performance.now() >= giveUpAt) throw new SlotTimeout(`no free slot in ${waitMs} ms`);
      await sleep(100 + Math.random() * 200);
    }
  } finally {
    // our own member only; nothing happens if it has gone already
    await client.zRem(key, id).catch((err) => console.warn("slot is freed by its lease:", err));
  }
}
