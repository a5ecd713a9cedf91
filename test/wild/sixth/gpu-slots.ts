import { randomUUID } from 'node:crypto';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

// Time is that of the server only, so that the workers' clocks do not matter.
const ACQUIRE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[3])
return 1
`;

const REFRESH = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[1])
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score or tonumber(score) < now then
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', now + ttl, ARGV[2])
return 1
`;

export interface Slot {
  id: string;
  isMine(): boolean;
  refresh(): Promise<boolean>;
  free(): Promise<void>;
}

/**
 * At most `limit` jobs on the GPUs of a cluster at a time.
 *
 *   const gpus = createSlots(client, 'gpu', 4, 60_000);
 *   const slot = await gpus.take();
 *   if (!slot) return requeue(job);
 */
export function createSlots(client: Client, name: string, limit: number, ttlMs: number) {
  const key = `slots:${name}`;

  async function take(): Promise<Slot | null> {
    const id = randomUUID();
    let until = performance.now() + ttlMs;
    const got = await client.eval(ACQUIRE, {
      keys: [key],
      arguments: [String(limit), String(ttlMs), id],
    });
    if (got !== 1) return null;

    return {
      id,
      isMine: () => performance.now() < until,
      async refresh() {
        const asked = performance.now();
        const ok = await client.eval(REFRESH, { keys: [key], arguments: [String(ttlMs), id] });
        if (ok === 1) until = Math.max(until, asked + ttlMs);
        else until = 0;
        return performance.now() < until;
      },
      async free() {
        until = 0;
        await client.zRem(key, id);
      },
    };
  }

  return { take };
}
