import type { Redis } from 'ioredis';

const QUEUE = 'photos:ingest';
const DEAD = 'photos:ingest:dead';
const DAY_SECONDS = 24 * 60 * 60;
const MAX_ATTEMPTS = 5;

interface IngestJob {
  photoId: string;
  url: string;
  attempt: number;
}

export interface PhotoRepo {
  saveMetadata(photoId: string, meta: { bytes: number; contentType: string; etag: string | null }): Promise<void>;
}

export interface ObjectStore {
  put(key: string, body: Uint8Array, contentType: string): Promise<void>;
}

/**
 * Takes photos off the queue. Producers may enqueue the same photo more than
 * once (double uploads, replays of the upload log), each is ingested once.
 */
export class PhotoIngestWorker {
  readonly #redis: Redis;
  readonly #blocking: Redis;
  readonly #repo: PhotoRepo;
  readonly #store: ObjectStore;
  readonly #name: string;
  readonly #processing: string;

  constructor(redis: Redis, repo: PhotoRepo, store: ObjectStore, name: string) {
    this.#redis = redis;
    this.#blocking = redis.duplicate();
    this.#repo = repo;
    this.#store = store;
    this.#name = name;
    this.#processing = `photos:ingest:processing:${name}`;
  }

  async run(stop: AbortSignal): Promise<void> {
    await this.#requeueLeftovers();
    try {
      while (!stop.aborted) {
        const raw = await this.#blocking.blmove(QUEUE, this.#processing, 'RIGHT', 'LEFT', 5);
        if (raw !== null) await this.#process(raw);
      }
    } finally {
      this.#blocking.disconnect();
    }
  }

  // Worker names are stable, so after a restart we find what we had in hand.
  async #requeueLeftovers(): Promise<void> {
    while ((await this.#redis.lmove(this.#processing, QUEUE, 'LEFT', 'RIGHT')) !== null);
  }

  async #process(raw: string): Promise<void> {
    const job = JSON.parse(raw) as IngestJob;
    const first = await this.#redis.set(
      `photos:ingested:${job.photoId}`, this.#name, 'EX', DAY_SECONDS, 'NX',
    );
    if (first !== 'OK') {
      console.debug(`photo ${job.photoId} was ingested before`);
      await this.#redis.lrem(this.#processing, 1, raw);
      return;
    }

    try {
      await this.#ingest(job);
    } catch (err) {
      console.error(`photo ${job.photoId}, attempt ${job.attempt}`, err);
      await this.#putBack(raw, job);
      return;
    }
    await this.#redis.lrem(this.#processing, 1, raw);
  }

  async #ingest(job: IngestJob): Promise<void> {
    const res = await fetch(job.url, { signal: AbortSignal.timeout(30_000) });
    if (!res.ok) throw new Error(`download answered ${res.status}`);
    const body = new Uint8Array(await res.arrayBuffer());
    const contentType = res.headers.get('content-type') ?? 'application/octet-stream';
    await this.#store.put(`originals/${job.photoId}`, body, contentType);
    await this.#repo.saveMetadata(job.photoId, {
      bytes: body.byteLength,
      contentType,
      etag: res.headers.get('etag'),
    });
  }

  async #putBack(raw: string, job: IngestJob): Promise<void> {
    const next = JSON.stringify({ ...job, attempt: job.attempt + 1 });
    await this.#redis
      .multi()
      .lrem(this.#processing, 1, raw)
      .lpush(job.attempt < MAX_ATTEMPTS ? QUEUE : DEAD, next)
      .exec();
  }
}
