import { randomUUID } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import Redis from 'ioredis';

interface ReportJob {
  id: string;
  data: { customerId: string; month: string };
}

interface InvoiceSource {
  pages(customerId: string, month: string): AsyncIterable<Array<{ number: string; total: number }>>;
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const OUTPUT_DIR = process.env.REPORT_DIR ?? './reports';

const LOCK_TTL_MS = 60_000;
// Kept below the TTL, so that we are always done before the lock can expire.
const JOB_TIMEOUT_MS = 50_000;

const RELEASE_SCRIPT = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

/** Writes the invoices of one month, page by page, into the customer's report. */
async function writeReport(job: ReportJob, source: InvoiceSource): Promise<string> {
  const { customerId, month } = job.data;
  await mkdir(OUTPUT_DIR, { recursive: true });
  const target = path.join(OUTPUT_DIR, `${customerId}-${month}.csv`);
  const file = await open(target, 'w');
  try {
    await file.appendFile('number,total\n');
    for await (const page of source.pages(customerId, month)) {
      for (const invoice of page) {
        await file.appendFile(`${invoice.number},${invoice.total}\n`);
      }
    }
  } finally {
    await file.close();
  }
  return target;
}

/** Rejects if the promise has not settled in time. */
async function withTimeout<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than allowed`)), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Queue processor. Only one worker at a time may write the report of a customer
 * and month; a failed job is retried by the queue.
 */
export async function processInvoiceReport(job: ReportJob, source: InvoiceSource) {
  const key = `lock:invoice-report:${job.data.customerId}:${job.data.month}`;
  const token = randomUUID();

  const startedAt = performance.now();
  const acquired = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  if (acquired !== 'OK') {
    return { skipped: true, reason: 'another worker is writing this report' };
  }

  try {
    // Time spent waiting for Redis counts against the budget.
    const remaining = startedAt + JOB_TIMEOUT_MS - performance.now();
    if (remaining <= 0) throw new Error('Redis took too long to answer, retrying later');
    const file = await withTimeout(writeReport(job, source), remaining, `Report job ${job.id}`);
    return { skipped: false, file };
  } finally {
    // Atomic compare-and-delete: never removes a lock that belongs to another worker.
    await redis.eval(RELEASE_SCRIPT, 1, key, token).catch((err: unknown) => {
      console.warn(`Failed to release ${key}`, err);
    });
  }
}
