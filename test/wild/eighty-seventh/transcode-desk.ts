import { randomUUID } from 'node:crypto';
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type Redis from 'ioredis';

const EXTEND = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`;

const RELEASE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])`;

export interface Manifest {
  reelId: string;
  takes: number;
  parts: { scene: string; etag: string }[];
}

export type Encoder = (scene: string, signal: AbortSignal) => Promise<{ body: Buffer; etag: string }>;

export class ReelTakenError extends Error {}

/** Exclusive use of one reel, renewed until it is disposed of. */
export class ReelLock implements AsyncDisposable {
  readonly #abort = new AbortController();
  readonly #token = randomUUID();
  #guard?: NodeJS.Timeout;
  #beat?: NodeJS.Timeout;
  #disposed = false;

  private constructor(private readonly redis: Redis, private readonly key: string, private readonly ttlMs: number) {}

  /** @throws ReelTakenError when someone else has the reel */
  static async acquire(redis: Redis, reelId: string, ttlMs = 20_000): Promise<ReelLock> {
    const lock = new ReelLock(redis, `reel:${reelId}:lock`, ttlMs);
    const sentAt = performance.now();
    const reply = await redis.set(lock.key, lock.#token, 'PX', ttlMs, 'NX');
    if (reply !== 'OK') throw new ReelTakenError(reelId);
    lock.#cover(sentAt);
    lock.#beat = setTimeout(() => lock.#renew(), ttlMs / 4);
    return lock;
  }

  /** Aborts once the lock can not be relied upon any more. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#guard);
    clearTimeout(this.#beat);
    await this.redis.eval(RELEASE, 1, this.key, this.#token).catch(() => 0);
  }

  #lose = (): void => this.#abort.abort(new ReelTakenError(`${this.key} lost`));

  #cover(sentAt: number): void {
    clearTimeout(this.#guard);
    this.#guard = setTimeout(this.#lose, Math.max(0, sentAt + this.ttlMs * 0.9 - performance.now()));
  }

  async #renew(): Promise<void> {
    const sentAt = performance.now();
    const kept = await this.redis.eval(EXTEND, 1, this.key, this.#token, this.ttlMs).catch(() => undefined);
    if (this.#disposed || this.signal.aborted) return;
    if (kept === 0) return this.#lose();
    if (kept === 1) this.#cover(sentAt);
    this.#beat = setTimeout(() => this.#renew(), this.ttlMs / 4);
  }
}

/** Encodes the scenes of a reel and keeps its manifest, which is read, amended and written back. */
export class TranscodeDesk {
  constructor(private readonly redis: Redis, private readonly s3: S3Client, private readonly bucket: string, private readonly encode: Encoder) {}

  /** Adds the given scenes to the reel; scenes that are there already are left out. */
  async addScenes(reelId: string, scenes: string[]): Promise<Manifest> {
    await using lock = await ReelLock.acquire(this.redis, reelId);
    const manifest = await this.readManifest(reelId);
    const known = new Set(manifest.parts.map((part) => part.scene));
    const missing = scenes.filter((scene) => !known.has(scene));
    if (missing.length === 0) return manifest;
    return this.encodeInto(manifest, missing, lock.signal);
  }

  private async encodeInto(manifest: Manifest, scenes: string[], signal: AbortSignal): Promise<Manifest> {
    for (const scene of scenes) {
      signal.throwIfAborted();
      const { body, etag } = await this.encode(scene, signal);
      await this.put(`${manifest.reelId}/${scene}.mp4`, body, signal);
      manifest.parts.push({ scene, etag });
    }
    manifest.takes += 1;
    signal.throwIfAborted();
    await this.put(`${manifest.reelId}/manifest.json`, JSON.stringify(manifest), signal);
    return manifest;
  }

  private async readManifest(reelId: string): Promise<Manifest> {
    const object = await this.s3.send(new GetObjectCommand({ Bucket: this.bucket, Key: `${reelId}/manifest.json` }));
    return JSON.parse(await object.Body!.transformToString()) as Manifest;
  }

  private async put(key: string, body: Buffer | string, abortSignal: AbortSignal): Promise<void> {
    await this.s3.send(new PutObjectCommand({ Bucket: this.bucket, Key: key, Body: body }), { abortSignal });
  }
}
