import { randomUUID } from 'node:crypto';
import type Redis from 'ioredis';
import pRetry from 'p-retry';
import { ulid } from 'ulid';
import { Asset } from '../models/asset';
import { putObject } from '../storage/s3';
import { probeRendition } from './probe';
import { renderHlsMaster } from './hls';
import { logger } from '../logger';

const IF_OWNER = (action: string) => `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  return ${action}`;
const EXTEND = IF_OWNER(`redis.call('pexpire', KEYS[1], ARGV[2])`);
const DELETE = IF_OWNER(`redis.call('del', KEYS[1])`);

export class LeaseBusy extends Error {}

/** A lease that renews itself and lets go at the end of the block: `await using lease = ...` */
export class Lease implements AsyncDisposable {
  readonly #abort = new AbortController();
  #validUntil: number;
  #timer: NodeJS.Timeout;
  #closed = false;

  private constructor(
    private readonly redis: Redis,
    readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    sentAt: number,
  ) {
    this.#validUntil = sentAt + ttlMs * 0.85;
    this.#timer = this.#schedule();
  }

  static async acquire(redis: Redis, key: string, ttlMs: number): Promise<Lease> {
    const token = randomUUID();
    const sentAt = Date.now();
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new LeaseBusy(key);
    if (Date.now() - sentAt > ttlMs / 4) throw new Error(`lease ${key}: answer came too late`); // runs out by itself
    return new Lease(redis, key, token, ttlMs, sentAt);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  #lose(why: string) {
    if (this.#closed || this.signal.aborted) return;
    clearInterval(this.#timer);
    this.#abort.abort(new Error(`lease ${this.key} lost: ${why}`));
  }

  #schedule() {
    let waiting = false;
    return setInterval(async () => {
      // checked on each tick, whether or not an answer to the last renewal came
      if (Date.now() >= this.#validUntil) return this.#lose('not renewed in time');
      if (waiting) return;
      waiting = true;
      const sentAt = Date.now();
      try {
        const ok = await this.redis.eval(EXTEND, 1, this.key, this.token, this.ttlMs);
        if (ok === 1) this.#validUntil = sentAt + this.ttlMs * 0.85;
        else this.#lose('taken by another');
      } catch (err) {
        logger.warn({ err, key: this.key }, 'renewal failed, trying again');
      } finally {
        waiting = false;
      }
    }, this.ttlMs / 20);
  }

  async [Symbol.asyncDispose]() {
    this.#closed = true;
    clearInterval(this.#timer);
    try {
      await this.redis.eval(DELETE, 1, this.key, this.token);
    } catch (err) {
      logger.warn({ err, key: this.key }, 'lease not released, it will run out');
    }
  }
}

export async function rebuildManifest(redis: Redis, assetId: string) {
  await using lease = await Lease.acquire(redis, `lease:manifest:${assetId}`, 20_000);

  const asset = await Asset.findById(assetId).orFail();
  const renditions = [];
  for (const r of asset.renditions) {
    renditions.push(await pRetry(() => probeRendition(r.url, lease.signal), { retries: 3, signal: lease.signal }));
  }
  lease.signal.throwIfAborted();

  // Each build goes to a name of its own; readers follow the pointer in the document.
  const objectKey = `manifests/${assetId}/${ulid()}.m3u8`;
  await putObject(objectKey, renderHlsMaster(renditions), { signal: lease.signal });
  lease.signal.throwIfAborted();

  const res = await Asset.updateOne(
    { _id: assetId, manifestVersion: asset.manifestVersion },
    { $set: { manifestKey: objectKey }, $inc: { manifestVersion: 1 } },
  );
  if (res.modifiedCount !== 1) throw new Error(`asset ${assetId} was rebuilt by somebody else`);
  logger.info({ assetId, objectKey, n: renditions.length }, 'manifest rebuilt');
}
