import { Mutex, TimeoutError } from 'redis-semaphore';
import type { Redis } from 'ioredis';

/**
 * Rebuilds the thumbnails of an album. The revision counter of the album must
 * move by one writer at a time, or clients see thumbnails of another revision.
 */
const LOCK_MS = 30_000;
const REFRESH_MS = 8_000;
const WAIT_MS = 5_000;
const PHOTO_TIMEOUT_MS = 15_000;

export interface PhotoStore {
  photosOf(albumId: string): Promise<{ id: string; original: string }[]>;
  revisionOf(albumId: string): Promise<number>;
  saveThumbnail(
    albumId: string,
    photoId: string,
    revision: number,
    image: Uint8Array,
    opts: { signal: AbortSignal },
  ): Promise<void>;
  setRevision(albumId: string, revision: number): Promise<void>;
}

export interface Resizer {
  thumbnail(original: string, opts: { signal: AbortSignal }): Promise<Uint8Array>;
}

export interface Metrics {
  increment(name: string): void;
}

export class AlbumBusyError extends Error {}

export class ThumbnailBackfill {
  constructor(
    private readonly redis: Redis,
    private readonly store: PhotoStore,
    private readonly resizer: Resizer,
    private readonly metrics: Metrics,
  ) {}

  async run(albumId: string): Promise<{ revision: number; photos: number }> {
    const mutex = new Mutex(this.redis, `album:${albumId}`, {
      lockTimeout: LOCK_MS,
      refreshInterval: REFRESH_MS,
      acquireTimeout: WAIT_MS,
      retryInterval: 200,
      // The default handler throws out of a timer and would end the process.
      onLockLost: (err) => {
        this.metrics.increment('thumbnails.lock_lost');
        console.error('album lock lost', albumId, err);
      },
    });

    try {
      await mutex.acquire();
    } catch (err) {
      if (err instanceof TimeoutError) throw new AlbumBusyError(albumId, { cause: err });
      throw err;
    }

    try {
      const revision = (await this.store.revisionOf(albumId)) + 1;
      const photos = await this.store.photosOf(albumId);
      for (const photo of photos) {
        const signal = AbortSignal.timeout(PHOTO_TIMEOUT_MS);
        const image = await this.resizer.thumbnail(photo.original, { signal });
        await this.store.saveThumbnail(albumId, photo.id, revision, image, { signal });
      }
      await this.store.setRevision(albumId, revision);
      return { revision, photos: photos.length };
    } finally {
      try {
        await mutex.release();
      } catch (err) {
        console.warn('album lock left to its TTL', albumId, err);
      }
    }
  }
}
