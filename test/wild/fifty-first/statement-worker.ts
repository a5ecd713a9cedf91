import Redis from "ioredis";
import Redlock, { ExecutionError, ResourceLockedError } from "redlock5";
import { Worker, type Job } from "bullmq";
import { Pool } from "pg";
import { renderStatement } from "./render.js";

const lockNodes = (process.env.LOCK_NODES ?? "redis://lock-a,redis://lock-b,redis://lock-c")
  .split(",")
  .map((url) => {
    const node = new Redis(url, {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: 500,
    });
    node.on("error", (err) => console.warn("lock node", url, err.message));
    return node;
  });

const redlock = new Redlock(lockNodes, {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 5_000,
});
redlock.on("error", (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn("redlock", err);
});

const pool = new Pool({ statement_timeout: 10_000 });

interface StatementJob {
  accountId: string;
  month: string;
}

async function buildStatement(job: Job<StatementJob>): Promise<string> {
  const { accountId, month } = job.data;

  return redlock.using([`statement:${accountId}:${month}`], 20_000, async (signal) => {
    const found = await pool.query(
      "SELECT id, status, version FROM statements WHERE account_id = $1 AND month = $2",
      [accountId, month],
    );
    const statement = found.rows[0];
    if (!statement) throw new Error(`no statement for ${accountId} ${month}`);
    if (statement.status === "ready") return "already built";

    const entries = await pool.query(
      "SELECT booked_at, text, amount FROM entries WHERE account_id = $1 AND month = $2 ORDER BY booked_at",
      [accountId, month],
    );
    if (signal.aborted) throw signal.error ?? new Error("lock lost");

    const pdf = await renderStatement(accountId, month, entries.rows, { signal });
    if (signal.aborted) throw signal.error ?? new Error("lock lost");

    const saved = await pool.query(
      `UPDATE statements SET status = 'ready', pdf = $3, version = version + 1
        WHERE id = $1 AND version = $2 AND status <> 'ready'`,
      [statement.id, statement.version, pdf],
    );
    if (saved.rowCount !== 1) throw new Error(`statement ${statement.id} changed meanwhile`);
    return "built";
  });
}

const worker = new Worker<StatementJob, string>(
  "statements",
  async (job) => {
    try {
      return await buildStatement(job);
    } catch (err) {
      if (err instanceof ExecutionError) console.warn("no quorum for", job.id, err.message);
      throw err;
    }
  },
  { connection: { url: process.env.QUEUE_URL }, concurrency: 4 },
);

worker.on("failed", (job, err) => console.error("statement job", job?.id, err));
worker.on("error", (err) => console.error("worker", err));

process.once("SIGTERM", async () => {
  await worker.close();
  await pool.end();
  for (const node of lockNodes) node.disconnect();
});
