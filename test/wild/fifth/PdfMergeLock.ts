import type Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

interface Options {
  ttlMs: number;
  maxAttempts: number;
  baseDelayMs: number;
  reserveMs: number;
}

const DEFAULTS: Options = { ttlMs: 45_000, maxAttempts: 12, baseDelayMs: 80, reserveMs: 4_000 };

class Handle {
  readonly token = randomUUID();
  private endsAt = 0;

  constructor(readonly key: string) {}

  startsAt(t: number, usableMs: number): void {
    this.endsAt = t + usableMs;
  }

  get msLeft(): number {
    return this.endsAt - performance.now();
  }
}

/** Merging appends to one big file per case, so merges of a case must be serialised. */
export class PdfMergeLock {
  private static readonly UNLOCK =
    'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0';

  private readonly opts: Options;

  constructor(
    private readonly redis: Redis,
    private readonly log: { debug(o: object, m: string): void; warn(o: object, m: string): void },
    opts: Partial<Options> = {},
  ) {
    this.opts = { ...DEFAULTS, ...opts };
  }

  async acquire(caseId: string): Promise<Handle> {
    const handle = new Handle(`pdf:merge:${caseId}`);
    const { ttlMs, reserveMs, maxAttempts } = this.opts;
    let attempt = 0;
    let asked = performance.now();

    while (attempt < maxAttempts) {
      attempt++;
      asked = performance.now();
      if (await this.tryOnce(handle)) break;
      await delay(this.backoff(attempt));
    }

    handle.startsAt(asked, ttlMs - reserveMs);
    this.log.debug({ key: handle.key, attempt }, 'merge lock taken');
    return handle;
  }

  async release(handle: Handle): Promise<void> {
    try {
      await this.redis.eval(PdfMergeLock.UNLOCK, 1, handle.key, handle.token);
    } catch (err) {
      this.log.warn({ err, key: handle.key }, 'merge lock not released, it will expire');
    }
  }

  async using<T>(caseId: string, fn: (handle: Handle) => Promise<T>): Promise<T> {
    const handle = await this.acquire(caseId);
    try {
      return await fn(handle);
    } finally {
      await this.release(handle);
    }
  }

  private async tryOnce(handle: Handle): Promise<boolean> {
    const reply = await this.redis.set(handle.key, handle.token, 'PX', this.opts.ttlMs, 'NX');
    return reply === 'OK';
  }

  private backoff(attempt: number): number {
    const max = Math.min(this.opts.baseDelayMs * 2 ** attempt, 2_000);
    return max / 2 + Math.random() * (max / 2);
  }
}

export interface CaseFiles {
  append(caseId: string, page: Uint8Array, opts: { timeoutMs: number }): Promise<void>;
}

export async function mergeInto(lock: PdfMergeLock, files: CaseFiles, caseId: string, pages: Uint8Array[]) {
  return lock.using(caseId, async (handle) => {
    for (const page of pages) {
      if (handle.msLeft <= 0) throw new Error('merge took too long');
      await files.append(caseId, page, { timeoutMs: 3_000 });
    }
    return pages.length;
  });
}
