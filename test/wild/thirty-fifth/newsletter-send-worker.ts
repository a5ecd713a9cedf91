import { Worker, type Job } from "bullmq";
import Redis from "ioredis";

export interface SendJob {
  issueId: string;
  subscriberId: string;
}

export interface Subscribers {
  find(id: string): Promise<{ email: string; name: string; unsubscribed: boolean } | null>;
  recordDelivery(id: string, issueId: string, messageId: string): Promise<void>;
}

export interface Issues {
  render(issueId: string, recipient: { name: string }): Promise<{ subject: string; html: string }>;
}

const MARK_SECONDS = 14 * 24 * 3600;

async function postMail(to: string, mail: { subject: string; html: string }): Promise<string> {
  const res = await fetch(`${process.env.MAIL_API_URL}/messages`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${process.env.MAIL_API_KEY}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ to, ...mail }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`mail api answered ${res.status}`);
  const { id } = (await res.json()) as { id: string };
  return id;
}

/**
 * Sends every subscriber the issue exactly once. Jobs are added with `attempts: 5` and
 * exponential backoff, so an outage of the mail API only delays delivery. BullMQ may hand
 * out a stalled job a second time; the mark in Redis keeps it from going out twice.
 */
export function startNewsletterWorker(subscribers: Subscribers, issues: Issues): Worker<SendJob> {
  const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379", {
    maxRetriesPerRequest: null,
  });
  redis.on("error", (err) => console.error("newsletter redis", err.message));

  const worker = new Worker<SendJob>(
    "newsletter-send",
    async (job: Job<SendJob>) => {
      const { issueId, subscriberId } = job.data;
      const mark = `newsletter:${issueId}:sent:${subscriberId}`;

      const first = await redis.set(mark, `${job.id}:${Date.now()}`, "EX", MARK_SECONDS, "NX");
      if (first !== "OK") {
        return { skipped: "already sent" };
      }

      const subscriber = await subscribers.find(subscriberId);
      if (!subscriber || subscriber.unsubscribed) {
        return { skipped: "not subscribed" };
      }

      const mail = await issues.render(issueId, subscriber);
      const messageId = await postMail(subscriber.email, mail);
      await subscribers.recordDelivery(subscriberId, issueId, messageId);
      return { messageId };
    },
    { connection: redis, concurrency: 20, limiter: { max: 100, duration: 1_000 } },
  );

  worker.on("failed", (job, err) => {
    console.error(`send ${job?.data.subscriberId} attempt ${job?.attemptsMade} failed: ${err.message}`);
  });
  worker.on("error", (err) => console.error("newsletter worker", err));
  return worker;
}
