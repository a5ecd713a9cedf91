import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Monthly export of open invoices to the accountant's bucket. Several API nodes
 * can be asked for the same period; only one of them may build the file.
 */

const LOCK_TTL_MS = 30_000;
const SAFETY_MS = 2_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

export interface Upload {
  part(no: number, rows: string[], signal: AbortSignal): Promise<void>;
  complete(signal: AbortSignal): Promise<string>;
  abort(): Promise<void>;
}

export interface ExportDeps {
  redis: Redis;
  invoices: {
    page(period: string, cursor: string | null, signal: AbortSignal): Promise<{ rows: string[]; next: string | null }>;
  };
  openUpload(name: string): Promise<Upload>;
  log: { warn(msg: string, extra?: unknown): void };
}

export type ExportResult = { status: 'exported'; url: string } | { status: 'already-running' };

export async function exportInvoices(deps: ExportDeps, period: string): Promise<ExportResult> {
  const { redis, log } = deps;
  const key = `lock:invoice-export:${period}`;
  const token = randomUUID();

  const sentAt = performance.now();
  const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  if (reply !== 'OK') return { status: 'already-running' };

  const lost = new AbortController();
  let deadline: NodeJS.Timeout | undefined;
  const arm = (from: number) => {
    clearTimeout(deadline);
    const left = from + LOCK_TTL_MS - SAFETY_MS - performance.now();
    deadline = setTimeout(() => lost.abort(new Error(`lock on ${period} ran out`)), Math.max(0, left));
  };
  arm(sentAt);

  let stopped = false;
  const heartbeat = setInterval(async () => {
    const at = performance.now();
    try {
      const kept = await redis.eval(EXTEND, 1, key, token, LOCK_TTL_MS);
      if (lost.signal.aborted || stopped) return;
      if (kept === 1) arm(at);
      else lost.abort(new Error(`lock on ${period} was lost`));
    } catch (err) {
      // the next beat tries again; the deadline decides if none gets through
      log.warn('could not extend export lock', err);
    }
  }, LOCK_TTL_MS / 3);

  try {
    const url = await build(deps, period, lost.signal);
    return { status: 'exported', url };
  } finally {
    stopped = true;
    clearInterval(heartbeat);
    clearTimeout(deadline);
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn('could not release export lock', err));
  }
}

async function build(deps: ExportDeps, period: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const upload = await deps.openUpload(`invoices-${period}.csv`);
  try {
    let cursor: string | null = null;
    let no = 1;
    do {
      signal.throwIfAborted();
      const page: { rows: string[]; next: string | null } = await deps.invoices.page(period, cursor, signal);
      signal.throwIfAborted();
      await upload.part(no++, page.rows, signal);
      cursor = page.next;
    } while (cursor);
    signal.throwIfAborted();
    return await upload.complete(signal);
  } catch (err) {
    await upload.abort().catch(() => {});
    throw err;
  }
}
