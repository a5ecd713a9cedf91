import Redis, { type RedisOptions } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1] .. ':free', '1')
  return 1
end
return 0
`;

const options: RedisOptions = {
  host: process.env.REDIS_HOST ?? 'localhost',
  port: Number(process.env.REDIS_PORT ?? 6379),
};

/** One thumbnail run per image; the others wait for it and then find the file on S3. */
export class ThumbnailLock {
  private readonly redis = new Redis({ ...options, commandTimeout: 3_000 });
  private readonly sub = new Redis(options);
  private readonly freed = new EventEmitter().setMaxListeners(0);

  constructor(
    private readonly ttlMs = 25_000,
    private readonly marginMs = 3_000,
    private readonly pollMs = 700,
  ) {
    for (const c of [this.redis, this.sub]) c.on('error', (e: Error) => console.warn('thumbnail lock:', e.message));
    this.sub.on('pmessage', (_pattern: string, channel: string) => this.freed.emit(channel));
    // messages are only a shortcut, whoever misses one polls
    this.sub.psubscribe('thumb:*:free').catch((e: Error) => console.warn('psubscribe:', e.message));
  }

  async run<T>(imageId: string, waitMs: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `thumb:${imageId}`;
    const token = randomUUID();
    const until = performance.now() + waitMs;

    try {
      for (;;) {
        const freed = this.nextFree(`${key}:free`);
        try {
          const asked = performance.now();
          if ((await this.redis.set(key, token, 'PX', this.ttlMs, 'NX')) === 'OK') {
            const ms = Math.floor(asked + this.ttlMs - this.marginMs - performance.now());
            if (ms <= 0) throw new Error('lock answer came too late');
            return await fn(AbortSignal.timeout(ms));
          }
          if (performance.now() >= until) throw new Error(`image ${imageId} is busy`);
          await freed.promise;
        } finally {
          freed.cancel();
        }
      }
    } finally {
      await this.redis
        .eval(UNLOCK, 1, key, token)
        .catch((e: Error) => console.warn(`unlock ${key}:`, e.message));
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.redis.quit(), this.sub.quit()]);
  }

  private nextFree(channel: string) {
    let done!: () => void;
    const promise = new Promise<void>((resolve) => (done = resolve));
    const timer = setTimeout(done, this.pollMs * (0.75 + Math.random() / 2));
    this.freed.once(channel, done);
    return {
      promise,
      cancel: () => {
        clearTimeout(timer);
        this.freed.off(channel, done);
      },
    };
  }
}

export async function ensureThumbnail(
  lock: ThumbnailLock,
  imageId: string,
  s3: { has(key: string): Promise<boolean>; put(key: string, data: Uint8Array, signal: AbortSignal): Promise<void> },
  render: (imageId: string, signal: AbortSignal) => Promise<Uint8Array>,
): Promise<void> {
  const target = `thumbs/${imageId}.webp`;
  if (await s3.has(target)) return;
  await lock.run(imageId, 40_000, async (signal) => {
    if (await s3.has(target)) return;
    const data = await render(imageId, signal);
    signal.throwIfAborted();
    await s3.put(target, data, signal);
  });
}
