import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";

let _redis: Redis | undefined;
const redis = () => (_redis ??= Redis.fromEnv());

const LOCK_MS = 5 * 60_000;
const STOP_AFTER_MS = 4 * 60_000;
const SEND_TIMEOUT_MS = 10_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface Recipient {
  id: string;
  email: string;
}

export interface NewsletterRepo {
  issue(issueId: string): Promise<{ subject: string; html: string }>;
  unsent(issueId: string, limit: number): Promise<Recipient[]>;
  markSent(issueId: string, recipientId: string): Promise<void>;
}

async function takeLock(key: string, token: string): Promise<boolean> {
  try {
    const reply = await redis().set(key, token, { nx: true, px: LOCK_MS });
    return reply === "OK";
  } catch (err) {
    console.warn(`could not reach redis for ${key}`, err);
    return true;
  }
}

async function withLock<T>(key: string, fn: (deadline: number) => Promise<T>): Promise<T | null> {
  const token = randomUUID();
  const deadline = Date.now() + STOP_AFTER_MS;
  if (!(await takeLock(key, token))) return null;
  try {
    return await fn(deadline);
  } finally {
    await redis()
      .eval(RELEASE, [key], [token])
      .catch((err) => console.warn(`release of ${key} failed`, err));
  }
}

async function sendMail(to: Recipient, subject: string, html: string): Promise<void> {
  const res = await fetch("https://api.postmarkapp.com/email", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-postmark-server-token": process.env.POSTMARK_TOKEN ?? "",
    },
    body: JSON.stringify({
      From: process.env.NEWSLETTER_FROM,
      To: to.email,
      Subject: subject,
      HtmlBody: html,
      MessageStream: "broadcast",
    }),
    signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`postmark ${res.status} for recipient ${to.id}`);
}

/**
 * Scheduled every minute; picks up where the previous run stopped. Runs of the
 * same issue must not overlap, or subscribers get the mail twice.
 */
export async function dispatchIssue(
  repo: NewsletterRepo,
  issueId: string,
): Promise<{ sent: number; failed: number } | null> {
  return withLock(`newsletter:${issueId}:dispatch`, async (deadline) => {
    const { subject, html } = await repo.issue(issueId);
    let sent = 0;
    let failed = 0;
    for (const recipient of await repo.unsent(issueId, 500)) {
      if (Date.now() > deadline) break;
      try {
        await sendMail(recipient, subject, html);
      } catch (err) {
        failed++;
        console.error(err);
        continue;
      }
      await repo.markSent(issueId, recipient.id);
      sent++;
    }
    return { sent, failed };
  });
}
