import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { renderPdf } from './pdf.mjs';
import { reportStore, type Report } from './report-store.mjs';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end
`;

export class AlreadyRunningError extends Error {
  constructor(key: string) {
    super(`${key} is already running`);
    this.name = 'AlreadyRunningError';
  }
}

interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs: number;
}

/**
 * Wraps a function so that only one call for each key runs at a time, over all
 * of the instances. Calls which find the key taken fail with AlreadyRunningError.
 */
export function exclusive<A extends unknown[], R>(
  options: ExclusiveOptions<A>,
  fn: (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args) => {
    const key = `exclusive:${options.key(...args)}`;
    const token = randomUUID();

    const reply = await redis.set(key, token, { nx: true, px: options.ttlMs });
    if (reply !== 'OK') throw new AlreadyRunningError(key);

    try {
      return fn(...args);
    } finally {
      try {
        await redis.eval(UNLOCK, [key], [token]);
      } catch (err) {
        console.warn(`could not unlock ${key}`, err);
      }
    }
  };
}

const RENDER_TIMEOUT_MS = 60_000;
const STORE_TIMEOUT_MS = 10_000;

/** Rendering a yearly report takes most of a CPU, once is enough. */
export const renderReport = exclusive(
  {
    key: (accountId: string, year: number) => `report:${accountId}:${year}`,
    ttlMs: RENDER_TIMEOUT_MS + 3 * STORE_TIMEOUT_MS,
  },
  async (accountId: string, year: number): Promise<Report> => {
    const existing = await reportStore.find(accountId, year, {
      signal: AbortSignal.timeout(STORE_TIMEOUT_MS),
    });
    if (existing) return existing;

    const pdf = await renderPdf('yearly', { accountId, year }, {
      signal: AbortSignal.timeout(RENDER_TIMEOUT_MS),
    });
    return reportStore.save(accountId, year, pdf, {
      signal: AbortSignal.timeout(STORE_TIMEOUT_MS),
    });
  },
);

/** POST /api/reports/:accountId/:year */
export async function POST(
  _request: Request,
  { params }: { params: { accountId: string; year: string } },
): Promise<Response> {
  try {
    const report = await renderReport(params.accountId, Number(params.year));
    return Response.json({ url: report.url });
  } catch (err) {
    if (err instanceof AlreadyRunningError) {
      return Response.json({ status: 'rendering' }, { status: 202 });
    }
    throw err;
  }
}
