import { randomUUID } from "node:crypto";
import { Worker, type Job } from "bullmq";
import { Redis } from "ioredis";

interface WelcomeMail {
  messageId: string;
  to: string;
  locale: string;
}

const host = process.env.REDIS_HOST ?? "127.0.0.1";
const port = Number(process.env.REDIS_PORT ?? 6379);
const redis = new Redis({ host, port });

const LOCK_TTL_MS = 60_000;
const SEND_BUDGET_MS = 40_000;
const SENT_TTL_S = 7 * 24 * 3600;

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

async function renderTemplate(locale: string, signal: AbortSignal): Promise<string> {
  const res = await fetch(`${process.env.TEMPLATE_URL}/welcome/${locale}`, { signal });
  if (!res.ok) throw new Error(`template service: ${res.status}`);
  return res.text();
}

async function deliver(to: string, html: string, signal: AbortSignal): Promise<void> {
  const res = await fetch(`${process.env.MAIL_API}/send`, {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", authorization: `Bearer ${process.env.MAIL_KEY}` },
    body: JSON.stringify({ to, subject: "Welcome!", html }),
  });
  if (!res.ok) throw new Error(`mail api: ${res.status}`);
}

async function handle(job: Job<WelcomeMail>): Promise<{ sent: boolean }> {
  const { messageId, to, locale } = job.data;
  const lockKey = `lock:mail:${messageId}`;
  const sentKey = `mail:sent:${messageId}`;
  const token = randomUUID();
  const signal = AbortSignal.timeout(SEND_BUDGET_MS);

  // Thrown errors go back to the queue and come again with backoff.
  if ((await redis.set(lockKey, token, "PX", LOCK_TTL_MS, "NX")) !== "OK") {
    throw new Error(`message ${messageId} is in progress elsewhere`);
  }
  try {
    if (await redis.exists(sentKey)) return { sent: false };
    await redis.set(sentKey, new Date().toISOString(), "EX", SENT_TTL_S);

    const html = await renderTemplate(locale, signal);
    await deliver(to, html, signal);
    return { sent: true };
  } finally {
    await redis.eval(UNLOCK, 1, lockKey, token).catch((err) => console.warn("unlock failed", lockKey, err));
  }
}

export const worker = new Worker<WelcomeMail>("welcome-mail", handle, {
  connection: { host, port },
  concurrency: 10,
});

worker.on("failed", (job, err) => console.error(`welcome mail ${job?.id} failed`, err.message));
