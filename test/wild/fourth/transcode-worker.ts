import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';

export interface TranscodeJob {
  id: string;
  data: { assetId: string; profiles: string[] };
}

export interface Logger {
  info(message: string, extra?: object): void;
  warn(message: string, extra?: object): void;
}

export class TranscodeWorker {
  private readonly redis: Redis;
  private readonly logger: Logger;
  private readonly encode: (assetId: string, profile: string) => Promise<string>;

  constructor(deps: {
    redis?: Redis;
    logger?: Logger;
    encode: (assetId: string, profile: string) => Promise<string>;
  }) {
    this.redis = deps.redis ?? new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { lazyConnect: true });
    this.logger = deps.logger ?? console;
    this.encode = deps.encode;
  }

  async process(job: TranscodeJob): Promise<string[]> {
    const { assetId, profiles } = job.data;
    const mutex = new Mutex(this.redis, `asset:${assetId}`, {
      lockTimeout: 15_000,
      refreshInterval: 5_000,
      acquireTimeout: 3_000,
      retryInterval: 150,
      onLockLost: (err) => {
        this.logger.warn('transcode lock', { job: job.id, assetId, message: err.message });
      },
    });

    await mutex.acquire();
    this.logger.info('transcoding', { job: job.id, assetId, profiles });
    const files: string[] = [];
    try {
      for (const profile of profiles) {
        files.push(await this.encode(assetId, profile));
      }
      return files;
    } finally {
      await mutex.release();
    }
  }
}

export function bitrateFor(profile: string): number {
  const table: Record<string, number> = { '480p': 1_200, '720p': 2_800, '1080p': 5_000 };
  return table[profile] ?? 800;
}
