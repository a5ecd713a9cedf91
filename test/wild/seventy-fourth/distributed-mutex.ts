import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

export interface AcquireOptions {
  /** Time to live of the key, kept up by the watchdog. Defaults to 10 seconds. */
  ttlMs?: number;
  /** Maximum time to wait for the lock. Defaults to 15 seconds. */
  timeoutMs?: number;
}

export class MutexTimeoutError extends Error {
  override readonly name = "MutexTimeoutError";
}

export class MutexLostError extends Error {
  override readonly name = "MutexLostError";
}

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

/** Rejects when Redis does not answer within `ms`. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const cancel = new AbortController();
  try {
    return await Promise.race([
      promise,
      sleep(ms, undefined, { signal: cancel.signal }).then(() => {
        throw new Error(`no answer from Redis within ${ms} ms`);
      }),
    ]);
  } finally {
    cancel.abort();
  }
}

/**
 * A mutex shared by all processes that use the same Redis.
 *
 * @example
 * ```ts
 * await using lock = await mutex.acquire("tenant:42:migration");
 * await migrate({ signal: lock.signal });
 * ```
 */
export class DistributedMutex {
  constructor(private readonly client: RedisClient, private readonly prefix = "mutex:") {}

  static async connect(url = process.env.REDIS_URL): Promise<DistributedMutex> {
    const client = createClient({ url });
    client.on("error", (error: Error) => console.error("DistributedMutex:", error.message));
    await client.connect();
    return new DistributedMutex(client);
  }

  async acquire(name: string, { ttlMs = 10_000, timeoutMs = 15_000 }: AcquireOptions = {}): Promise<HeldMutex> {
    const key = this.prefix + name;
    const token = randomUUID();
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const sentAt = Date.now();
      const reply = await this.client.set(key, token, { NX: true, PX: ttlMs });
      if (reply === "OK") return new HeldMutex(this.client, key, token, ttlMs, sentAt + ttlMs);
      if (Date.now() >= deadline) throw new MutexTimeoutError(`"${name}" is still held after ${timeoutMs} ms`);
      await sleep(50 + Math.random() * 150);
    }
  }
}

export class HeldMutex implements AsyncDisposable {
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout | undefined;
  private released = false;

  constructor(
    private readonly client: RedisClient,
    readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    private expiresAt: number,
  ) {
    this.scheduleWatchdog();
  }

  /** Aborted when the lock is lost while work is still in progress. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  private scheduleWatchdog(): void {
    this.timer = setTimeout(() => void this.keepAlive(), this.ttlMs / 3);
  }

  private async keepAlive(): Promise<void> {
    const sentAt = Date.now();
    try {
      const alive = await within(this.ttlMs / 4, this.client.pExpire(this.key, this.ttlMs));
      if (!alive) return this.lose("the key is gone");
      this.expiresAt = sentAt + this.ttlMs;
    } catch (error) {
      // A single hiccup is no reason to give up while the key is still valid.
      const nextTry = Date.now() + this.ttlMs / 3;
      if (nextTry >= this.expiresAt) return this.lose((error as Error).message);
    }
    if (!this.released) this.scheduleWatchdog();
  }

  private lose(reason: string): void {
    if (!this.released) this.controller.abort(new MutexLostError(`${this.key}: ${reason}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.released = true;
    clearTimeout(this.timer);
    await this.client.eval(UNLOCK, { keys: [this.key], arguments: [this.token] });
  }
}
