import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const NOW = `local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
return 1`;

const KEEP = `${NOW}
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then return 0 end
if tonumber(score) <= now then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
return 1`;

export interface SemaphoreOptions {
  limit: number;
  /** Lease of one slot in ms; renewed while the work runs. */
  ttl?: number;
  /** How long to wait for a free slot. */
  waitMs?: number;
  onLost?: (reason: Error) => void;
}

export class SlotTimeoutError extends Error {}

/** Counting semaphore: at most `limit` holders of `key` across all processes. */
export class Semaphore {
  private readonly ttl: number;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly opts: SemaphoreOptions,
  ) {
    this.ttl = opts.ttl ?? 15_000;
  }

  async run<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const sentAt = await this.take(id);

    const ac = new AbortController();
    let finished = false;
    let deadline: NodeJS.Timeout;
    let next: NodeJS.Timeout;

    const lose = (message: string) => {
      if (finished || ac.signal.aborted) return;
      const reason = new Error(`${this.key}: ${message}`);
      ac.abort(reason);
      this.opts.onLost?.(reason);
    };
    const armDeadline = (from: number) => {
      clearTimeout(deadline);
      const left = from + this.ttl * 0.85 - performance.now();
      deadline = setTimeout(() => lose('slot could not be renewed in time'), Math.max(0, left));
    };
    const renew = async () => {
      const from = performance.now();
      try {
        const kept = await this.redis.eval(KEEP, 1, this.key, id, this.ttl);
        if (kept !== 1) return lose('slot was given away');
        if (!ac.signal.aborted && !finished) armDeadline(from);
      } catch {
        // the deadline stays where it is; try again on the next round
      }
      if (!ac.signal.aborted && !finished) next = setTimeout(renew, this.ttl / 4);
    };

    armDeadline(sentAt);
    next = setTimeout(renew, this.ttl / 4);
    try {
      if (performance.now() >= sentAt + this.ttl * 0.85) lose('slot came too late');
      ac.signal.throwIfAborted();
      return await fn(ac.signal);
    } finally {
      finished = true;
      clearTimeout(deadline!);
      clearTimeout(next);
      await this.drop(id);
    }
  }

  /** Resolves to the time the successful command was sent. */
  private async take(id: string): Promise<number> {
    const giveUpAt = performance.now() + (this.opts.waitMs ?? 10_000);
    for (;;) {
      const sentAt = performance.now();
      try {
        if ((await this.redis.eval(TAKE, 1, this.key, id, this.opts.limit, this.ttl)) === 1) return sentAt;
      } catch (err) {
        await this.drop(id);
        throw err;
      }
      if (performance.now() >= giveUpAt) {
        await this.drop(id);
        throw new SlotTimeoutError(this.key);
      }
      await sleep(100 + Math.random() * 150);
    }
  }

  private async drop(id: string): Promise<void> {
    try {
      await this.redis.zrem(this.key, id);
    } catch (err) {
      console.warn('slot of %s will lapse by itself: %s', this.key, (err as Error).message);
    }
  }
}

// Example: the PDF renderer licence allows four parallel jobs
const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.error('[redis]', err.message));
const renderSlots = new Semaphore(redis, 'sem:pdf-render', { limit: 4 });

export const renderPdf = (html: string) =>
  renderSlots.run(async (signal) => {
    const res = await fetch('http://renderer.internal/pdf', { method: 'POST', body: html, signal });
    if (!res.ok) throw new Error(`renderer: ${res.status}`);
    return Buffer.from(await res.arrayBuffer());
  });
