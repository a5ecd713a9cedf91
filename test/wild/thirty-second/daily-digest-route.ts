// app/api/cron/daily-digest/route.ts - called every 15 minutes, sends once a day
import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";

export const maxDuration = 300;

const redis = Redis.fromEnv();

const LEASE_MS = 300_000;
const BUDGET_MS = 240_000;
const DONE_TTL_S = 3 * 24 * 3600;

// The REST client may repeat a request, so finding our own token counts as success.
const BEGIN = `
if redis.call("EXISTS", KEYS[2]) == 1 then return "done" end
local holder = redis.call("GET", KEYS[1])
if holder == ARGV[1] then return "run" end
if holder then return "busy" end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return "run"
`;

const FINISH = `
redis.call("SET", KEYS[2], ARGV[1], "EX", ARGV[2])
if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end
return 1
`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0
`;

async function sendDigests(day: string, signal: AbortSignal): Promise<number> {
  const list = await fetch(`${process.env.USERS_API}/subscribers?list=digest`, { signal });
  if (!list.ok) throw new Error(`subscribers: ${list.status}`);
  const { users } = (await list.json()) as { users: { id: string; email: string }[] };

  for (const user of users) {
    signal.throwIfAborted();
    const res = await fetch(`${process.env.MAIL_API}/send`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${process.env.MAIL_KEY}`,
        "content-type": "application/json",
        "idempotency-key": `digest-${day}-${user.id}`,
      },
      body: JSON.stringify({ to: user.email, template: "daily-digest", data: { day } }),
      signal,
    });
    if (!res.ok) throw new Error(`mail to ${user.id}: ${res.status}`);
  }
  return users.length;
}

export async function GET(request: Request): Promise<Response> {
  const secret = process.env.CRON_SECRET;
  if (!secret || request.headers.get("authorization") !== `Bearer ${secret}`) {
    return new Response("unauthorized", { status: 401 });
  }

  const day = new Date().toISOString().slice(0, 10);
  const lockKey = `{digest:${day}}:lock`;
  const doneKey = `{digest:${day}}:done`;
  const token = `run-${randomUUID()}`;
  const signal = AbortSignal.timeout(BUDGET_MS);

  const state = await redis.eval(BEGIN, [lockKey, doneKey], [token, String(LEASE_MS)]);
  if (state !== "run") return Response.json({ day, state });

  try {
    const sent = await sendDigests(day, signal);
    await redis.eval(FINISH, [lockKey, doneKey], [token, String(DONE_TTL_S)]);
    return Response.json({ day, state: "sent", sent });
  } catch (err) {
    console.error(`digest ${day} failed, next call tries again`, err);
    await redis.eval(RELEASE, [lockKey], [token]).catch((e) => console.warn("lock left to expire", e));
    return Response.json({ day, state: "failed" }, { status: 500 });
  }
}
