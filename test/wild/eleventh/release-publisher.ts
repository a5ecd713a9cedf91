import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const TTL = 20_000;
const RENEW = 5_000;
const MARGIN = 3_000; // we stop this long before Redis drops the key

const lua = {
  renew: `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`,
  free: `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`,
};

export class Lease implements AsyncDisposable {
  private readonly abort = new AbortController();
  private renewTimer?: NodeJS.Timeout;
  private endTimer?: NodeJS.Timeout;
  private disposed = false;

  private constructor(
    private readonly redis: Redis,
    readonly key: string,
    private readonly token: string,
    private until: number,
  ) {
    this.watchEnd();
    this.scheduleRenewal();
  }

  static async acquire(redis: Redis, key: string): Promise<Lease | null> {
    const token = randomUUID();
    const before = performance.now();
    const ok = await redis.set(key, token, 'PX', TTL, 'NX');
    return ok === 'OK' ? new Lease(redis, key, token, before + TTL - MARGIN) : null;
  }

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  assertHeld(): void {
    if (performance.now() >= this.until) this.abort.abort(new Error(`lease ${this.key} has run out`));
    this.abort.signal.throwIfAborted();
  }

  private watchEnd() {
    clearTimeout(this.endTimer);
    this.endTimer = setTimeout(
      () => this.abort.abort(new Error(`lease ${this.key} has run out`)),
      this.until - performance.now(),
    );
  }

  private scheduleRenewal() {
    this.renewTimer = setTimeout(() => void this.renew(), RENEW);
  }

  private async renew() {
    const before = performance.now();
    try {
      const ok = await this.redis.eval(lua.renew, 1, this.key, this.token, TTL);
      if (this.disposed || this.abort.signal.aborted) return;
      if (ok !== 1) {
        this.abort.abort(new Error(`lease ${this.key} was lost`));
        return;
      }
      this.until = before + TTL - MARGIN;
      this.watchEnd();
    } catch (err) {
      console.warn(`renewal of ${this.key} failed, next try in ${RENEW} ms`, err);
    }
    if (!this.disposed && !this.abort.signal.aborted) this.scheduleRenewal();
  }

  async [Symbol.asyncDispose]() {
    this.disposed = true;
    clearTimeout(this.renewTimer);
    clearTimeout(this.endTimer);
    await this.redis.eval(lua.free, 1, this.key, this.token).catch((err) => {
      console.warn(`could not free ${this.key}`, err);
    });
  }
}

export interface Channel {
  build(version: string, signal: AbortSignal): Promise<string[]>;
  /** gives up (rejects) when the signal aborts, or after two seconds at the latest */
  upload(artifact: string, signal: AbortSignal): Promise<void>;
}

export async function publishRelease(redis: Redis, channel: Channel, version: string): Promise<boolean> {
  await using lease = await Lease.acquire(redis, 'release:stable');
  if (!lease) return false;

  const artifacts = await channel.build(version, lease.signal);
  for (const a of artifacts) {
    lease.assertHeld();
    await channel.upload(a, lease.signal);
  }
  return true;
}
