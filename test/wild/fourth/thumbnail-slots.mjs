import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * At most `limit` renderers per bucket over all workers.
 * @param redis connected node-redis client
 */
export class ThumbnailSlots {
  constructor(redis, { limit = 1, slotMs = 20_000 } = {}) {
    this.redis = redis;
    this.limit = limit;
    this.slotMs = slotMs;
  }

  #key(bucket) {
    return `thumbs:${bucket}:slots`;
  }

  async #serverNow() {
    const [seconds, micros] = await this.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  async acquire(bucket) {
    const key = this.#key(bucket);
    const now = await this.#serverNow();
    await this.redis.zRemRangeByScore(key, '-inf', now);
    if ((await this.redis.zCard(key)) >= this.limit) return null;

    const id = randomUUID();
    await this.redis
      .multi()
      .zAdd(key, { score: now + this.slotMs, value: id })
      .pExpire(key, this.slotMs)
      .exec();
    return id;
  }

  async release(bucket, id) {
    await this.redis.zRem(this.#key(bucket), id);
  }

  async run(bucket, fn, { waitMs = 10_000 } = {}) {
    const stopAt = performance.now() + waitMs;
    let id = await this.acquire(bucket);
    while (!id) {
      if (performance.now() > stopAt) throw new Error(`no thumbnail slot in ${bucket}`);
      await sleep(100 + Math.random() * 150);
      id = await this.acquire(bucket);
    }
    try {
      return await fn();
    } finally {
      await this.release(bucket, id);
    }
  }
}

export function fit({ width, height }, box) {
  const scale = Math.min(box.width / width, box.height / height, 1);
  return { width: Math.round(width * scale), height: Math.round(height * scale) };
}
