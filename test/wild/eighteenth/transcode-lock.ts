import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";

const RELEASE_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

/**
 * Lock for one video that lives as long as its transcoding does: the TTL is
 * short, so that a killed worker frees the video soon, and a watchdog renews it.
 */
export class TranscodeLock {
  private readonly redis: Redis;
  private readonly key: string;
  private readonly token = randomUUID();
  private readonly ttlMs: number;
  private readonly controller = new AbortController();
  private watchdog: NodeJS.Timeout | undefined;
  private expiry: NodeJS.Timeout | undefined;
  private finished = false;
  private validUntil = 0;

  constructor(redis: Redis, videoId: string, ttlMs = 15_000) {
    this.redis = redis;
    this.key = `transcode:${videoId}`;
    this.ttlMs = ttlMs;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  async tryAcquire(): Promise<boolean> {
    const sentAt = performance.now();
    const reply = await this.redis.set(this.key, this.token, "PX", this.ttlMs, "NX");
    if (reply !== "OK") return false;
    this.armExpiry(sentAt);
    this.armWatchdog();
    return true;
  }

  ensureHeld(): void {
    if (performance.now() >= this.validUntil) this.lost("expired");
    this.signal.throwIfAborted();
  }

  async release(): Promise<void> {
    this.finished = true;
    this.stopTimers();
    await this.redis.eval(RELEASE_SCRIPT, 1, this.key, this.token);
  }

  private armExpiry(sentAt: number): void {
    this.validUntil = sentAt + this.ttlMs - 500;
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.lost("expired"), Math.max(0, this.validUntil - performance.now()));
  }

  private armWatchdog(): void {
    this.watchdog = setTimeout(() => void this.renew(), this.ttlMs / 3);
  }

  private async renew(): Promise<void> {
    const sentAt = performance.now();
    try {
      // XX: only if the lock is still there, an expired one must not come back
      const reply = await this.redis.set(this.key, this.token, "PX", this.ttlMs, "XX");
      if (this.finished || this.signal.aborted) return;
      if (reply !== "OK") return this.lost("gone");
      this.armExpiry(sentAt);
    } catch (err) {
      console.warn(`renewing ${this.key} failed, trying again`, err);
    }
    if (!this.finished && !this.signal.aborted) this.armWatchdog();
  }

  private lost(reason: string): void {
    this.stopTimers();
    this.controller.abort(new Error(`lock ${this.key}: ${reason}`));
  }

  private stopTimers(): void {
    clearTimeout(this.watchdog);
    clearTimeout(this.expiry);
  }
}

export type Rendition = (signal: AbortSignal) => Promise<void>;

export async function transcode(redis: Redis, videoId: string, renditions: Rendition[]): Promise<boolean> {
  const lock = new TranscodeLock(redis, videoId);
  if (!(await lock.tryAcquire())) return false;
  try {
    for (const render of renditions) {
      lock.ensureHeld();
      await render(lock.signal);
    }
    return true;
  } finally {
    await lock.release().catch((err: Error) => console.warn(`release of ${videoId}: ${err.message}`));
  }
}
