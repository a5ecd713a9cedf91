import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';

let connection: Redis | undefined;

export function getConnection(): Redis {
  connection ??= new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
  return connection;
}

export interface ReportJob {
  id: string;
  data: { reportId: string; sections: string[] };
}

const LEASE_MS = 20_000;
const SAFETY_MS = 1_000;

/**
 * No refresh: a report has LEASE_MS in all. The signal fires before the key can
 * have expired, whatever the network did in between.
 */
export async function exclusively<T>(
  name: string,
  fn: (signal: AbortSignal) => Promise<T>,
  redis: Redis = getConnection(),
): Promise<T | undefined> {
  const mutex = new Mutex(redis, name, {
    lockTimeout: LEASE_MS,
    refreshInterval: 0,
    acquireAttemptsLimit: 1,
  });

  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Error(`${name}: out of time`)),
    LEASE_MS - SAFETY_MS,
  );
  try {
    if (!(await mutex.tryAcquire())) return undefined;
    try {
      controller.signal.throwIfAborted();
      return await fn(controller.signal);
    } finally {
      await mutex.release();
    }
  } finally {
    clearTimeout(timer);
  }
}

export async function processReport(
  job: ReportJob,
  build: (section: string, signal: AbortSignal) => Promise<string>,
): Promise<string[] | undefined> {
  const started = Date.now();
  const parts = await exclusively(`report:${job.data.reportId}`, async (signal) => {
    const out: string[] = [];
    for (const section of job.data.sections) {
      signal.throwIfAborted();
      out.push(await build(section, signal));
    }
    return out;
  });
  console.info('report', job.id, parts ? 'built' : 'skipped', Date.now() - started);
  return parts;
}
