import { randomUUID } from "node:crypto";
import { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

const LOCK_KEY = "cron:email-digests";
const LOCK_SECONDS = 600;
const RUN_BUDGET_MS = 8 * 60_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export interface Subscriber {
  id: string;
  email: string;
  lastDigestAt: Date;
}

export interface DigestRepo {
  /** Subscribers whose digest is due, oldest first. */
  due(limit: number): Promise<Subscriber[]>;
  articlesBetween(subscriberId: string, from: Date, to: Date): Promise<string[]>;
  setLastDigestAt(subscriberId: string, at: Date): Promise<void>;
}

export interface Mailer {
  send(to: string, subject: string, lines: string[], opts: { messageId: string; signal: AbortSignal }): Promise<void>;
}

async function takeCronLock(client: RedisClient): Promise<string | null> {
  const token = randomUUID();
  const created = await client.setNX(LOCK_KEY, token);
  if (!created) return null;
  await client.expire(LOCK_KEY, LOCK_SECONDS);
  return token;
}

async function dropCronLock(client: RedisClient, token: string): Promise<void> {
  await client.eval(RELEASE, { keys: [LOCK_KEY], arguments: [token] });
}

/**
 * Called by node-cron on every web instance, every fifteen minutes. The first
 * instance sends what is due, the others skip the tick.
 */
export async function sendDueDigests(client: RedisClient, repo: DigestRepo, mailer: Mailer): Promise<number> {
  const stopAt = performance.now() + RUN_BUDGET_MS;
  const token = await takeCronLock(client);
  if (token === null) {
    console.info("digest run skipped, another instance has it");
    return 0;
  }

  let sent = 0;
  try {
    for (const sub of await repo.due(500)) {
      if (performance.now() > stopAt) break; // the rest is still due at the next tick

      const now = new Date();
      const lines = await repo.articlesBetween(sub.id, sub.lastDigestAt, now);
      if (lines.length > 0) {
        await mailer.send(sub.email, "Your digest", lines, {
          messageId: `digest-${sub.id}-${sub.lastDigestAt.getTime()}`,
          signal: AbortSignal.timeout(20_000),
        });
        sent++;
      }
      await repo.setLastDigestAt(sub.id, now);
    }
    return sent;
  } finally {
    await dropCronLock(client, token).catch((err) => console.warn("digest lock not dropped", err));
  }
}
