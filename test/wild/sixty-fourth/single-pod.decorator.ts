import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { logger } from './logger.js';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 5_000,
});

/** Deletes the key only if it still carries our token. */
const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export interface SinglePodOptions {
  /** Name of the job, the same on all pods. */
  name: string;
  /** Lease in milliseconds. It is renewed three times per lease. */
  ttl?: number;
}

type Job<This> = (this: This, signal: AbortSignal) => Promise<void>;

/**
 * Method decorator: runs a cron job on only one pod at a time.
 *
 * - unique token per run, `SET NX PX` in a single command
 * - automatic renewal while the job is running
 * - the job's AbortSignal fires as soon as the lock is gone, or when two renewals
 *   in a row got no answer
 * - atomic release by a Lua script
 *
 * @example
 * class Jobs {
 *   \@SinglePod({ name: 'sync-invoices', ttl: 30_000 })
 *   async syncInvoices(signal: AbortSignal) { ... }
 * }
 */
export function SinglePod({ name, ttl = 30_000 }: SinglePodOptions) {
  return function decorate<This>(
    method: Job<This>,
    _context: ClassMethodDecoratorContext<This, Job<This>>,
  ): Job<This> {
    return async function onePodOnly(this: This, outer: AbortSignal): Promise<void> {
      const key = `cron:${name}`;
      const token = randomUUID();

      if ((await redis.set(key, token, 'PX', ttl, 'NX')) !== 'OK') {
        logger.debug(`${name}: running on another pod, skipped`);
        return;
      }

      const lost = new AbortController();
      let missed = 0;
      const heartbeat = setInterval(async () => {
        try {
          const renewed = await redis.pexpire(key, ttl);
          if (renewed === 1) {
            missed = 0;
          } else {
            lost.abort(new Error(`${name}: lock lost`));
          }
        } catch (err) {
          logger.warn(`${name}: renewal failed`, err);
          if (++missed >= 2) {
            lost.abort(new Error(`${name}: Redis is not reachable`));
          }
        }
        if (lost.signal.aborted) clearInterval(heartbeat);
      }, ttl / 3);

      try {
        const signal = outer ? AbortSignal.any([outer, lost.signal]) : lost.signal;
        await method.call(this, signal);
      } finally {
        clearInterval(heartbeat);
        await redis.eval(RELEASE_SCRIPT, 1, key, token).catch((err: unknown) => {
          logger.warn(`${name}: release failed, the key will expire`, err);
        });
      }
    };
  };
}

export class InvoiceJobs {
  constructor(private readonly api: string) {}

  @SinglePod({ name: 'sync-invoices', ttl: 30_000 })
  async syncInvoices(signal: AbortSignal): Promise<void> {
    let cursor: string | null = '';
    while (cursor !== null) {
      signal.throwIfAborted();
      const res: Response = await fetch(`${this.api}/invoices/sync?cursor=${cursor}`, {
        method: 'POST',
        signal,
      });
      if (!res.ok) throw new Error(`sync answered ${res.status}`);
      cursor = ((await res.json()) as { next: string | null }).next;
    }
  }
}
