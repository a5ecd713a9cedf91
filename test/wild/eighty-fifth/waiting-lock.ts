import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';
import type { Logger } from 'pino';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('del', KEYS[1])
  redis.call('publish', ARGV[2], '1')
  return 1
end
return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export interface WaitingLockOptions {
  redis: Redis;
  /** A connection of its own, it goes into subscriber mode. */
  subscriber: Redis;
  logger: Logger;
  prefix?: string;
  ttlMs?: number;
}

/**
 * Mutual exclusion without polling, for the ad stitching fleet: those who find an episode
 * taken are woken once it is free.
 */
export class WaitingLock {
  private readonly waiters = new Map<string, Set<() => void>>();
  private readonly prefix: string;
  private readonly ttlMs: number;

  private constructor(private readonly opts: WaitingLockOptions) {
    this.prefix = opts.prefix ?? 'stitch';
    this.ttlMs = opts.ttlMs ?? 10_000;
  }

  static async create(opts: WaitingLockOptions): Promise<WaitingLock> {
    const lock = new WaitingLock(opts);
    opts.subscriber.on('pmessage', (_pattern: string, channel: string) => {
      const woken = lock.waiters.get(channel);
      lock.waiters.delete(channel);
      woken?.forEach((wake) => wake());
    });
    await opts.subscriber.psubscribe(`${lock.prefix}:freed:*`);
    return lock;
  }

  async run<T>(name: string, work: (signal: AbortSignal) => Promise<T>, waiting?: AbortSignal): Promise<T> {
    const { redis, logger } = this.opts;
    const key = `${this.prefix}:lock:${name}`;
    const channel = `${this.prefix}:freed:${name}`;
    const token = randomUUID();

    let sentAt: number;
    for (;;) {
      waiting?.throwIfAborted();
      sentAt = performance.now();
      if ((await redis.set(key, token, 'PX', this.ttlMs, 'NX')) === 'OK') break;
      await this.freed(channel, waiting);
    }

    const lost = new AbortController();
    let watchdog: NodeJS.Timeout | undefined;
    const holdFrom = (at: number) => {
      clearTimeout(watchdog);
      const left = at + this.ttlMs * 0.9 - performance.now();
      watchdog = setTimeout(() => lost.abort(new Error(`lost ${key}`)), Math.max(0, left));
    };
    holdFrom(sentAt);

    let done = false;
    const heartbeat = setInterval(async () => {
      const at = performance.now();
      try {
        const kept = await redis.eval(EXTEND, 1, key, token, this.ttlMs);
        if (done || lost.signal.aborted) return;
        if (kept === 1) holdFrom(at);
        else lost.abort(new Error(`lost ${key}`));
      } catch (err) {
        logger.warn({ err, key }, 'extension failed');
      }
    }, this.ttlMs / 3);

    try {
      return await work(lost.signal);
    } finally {
      done = true;
      clearInterval(heartbeat);
      clearTimeout(watchdog);
      await redis.eval(RELEASE, 1, key, token, channel).catch((err) => logger.warn({ err, key }, 'release failed'));
    }
  }

  private freed(channel: string, waiting?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const set = this.waiters.get(channel) ?? new Set();
      this.waiters.set(channel, set);
      const onAbort = () => {
        set.delete(wake);
        reject(waiting!.reason);
      };
      const wake = () => {
        waiting?.removeEventListener('abort', onAbort);
        resolve();
      };
      set.add(wake);
      waiting?.addEventListener('abort', onAbort, { once: true });
    });
  }
}
