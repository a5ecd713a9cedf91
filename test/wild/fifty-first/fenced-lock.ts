import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import type { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const TAKE = `
if not redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return 0
end
local time = redis.call("TIME")
local last = tonumber(redis.call("GET", KEYS[2]) or "0")
local fence = math.max(last + 1, time[1] * 1000 + math.floor(time[2] / 1000))
redis.call("SET", KEYS[2], string.format("%.0f", fence))
return fence`;

const GIVE_BACK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export interface Fence {
  readonly number: number;
  readonly holder: string;
}

export class BusyError extends Error {}
export class StaleFenceError extends Error {}

async function take(client: Client, name: string, holder: string, ttlMs: number, waitMs: number): Promise<Fence> {
  const until = Date.now() + waitMs;
  for (;;) {
    const number = Number(
      await client.eval(TAKE, {
        keys: [`{${name}}:lock`, `{${name}}:fence`],
        arguments: [holder, String(ttlMs)],
      }),
    );
    if (number > 0) return { number, holder };
    if (Date.now() >= until) throw new BusyError(`${name} is being edited`);
    await sleep(60 + Math.random() * 120);
  }
}

export async function withFence<T>(
  client: Client,
  name: string,
  work: (fence: Fence) => Promise<T>,
  { ttlMs = 15_000, waitMs = 4_000 } = {},
): Promise<T> {
  const holder = randomUUID();
  try {
    const fence = await take(client, name, holder, ttlMs, waitMs);
    return await work(fence);
  } finally {
    await client
      .eval(GIVE_BACK, { keys: [`{${name}}:lock`], arguments: [holder] })
      .catch((err: Error) => console.warn("give back", name, err.message));
  }
}

export async function saveDocument(pool: Pool, id: string, body: unknown, fence: Fence): Promise<void> {
  const saved = await pool.query(
    `UPDATE documents
        SET body = $2, fence = $3, fence_holder = $4, updated_at = now()
      WHERE id = $1
        AND (fence < $3 OR (fence = $3 AND fence_holder = $4))`,
    [id, JSON.stringify(body), fence.number, fence.holder],
  );
  if (saved.rowCount !== 1) {
    throw new StaleFenceError(`document ${id} rejected fence ${fence.number}`);
  }
}

export function editDocument(
  client: Client,
  pool: Pool,
  id: string,
  edit: (body: Record<string, unknown>) => Promise<Record<string, unknown>>,
): Promise<void> {
  return withFence(client, `document:${id}`, async (fence) => {
    const claimed = await pool.query(
      `UPDATE documents SET fence = $2, fence_holder = $3
        WHERE id = $1 AND fence < $2 RETURNING body`,
      [id, fence.number, fence.holder],
    );
    if (claimed.rowCount !== 1) throw new StaleFenceError(`document ${id} not claimed`);
    await saveDocument(pool, id, await edit(claimed.rows[0].body), fence);
  });
}
