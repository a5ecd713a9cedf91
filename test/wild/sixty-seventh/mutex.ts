import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

export interface MutexOptions {
  ttl?: number;
  retryDelay?: number;
}

export interface AcquireOptions {
  /** Milliseconds to wait for the lock; rejects with MutexTimeout afterwards. */
  timeout?: number;
}

export class MutexTimeout extends Error {
  override name = 'MutexTimeout';
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A lock that is held. Its watchdog extends it until it is disposed. */
export class Held implements AsyncDisposable {
  private readonly controller = new AbortController();
  private watchdog?: NodeJS.Timeout;
  private disposed = false;

  constructor(
    private readonly client: Client,
    private readonly key: string,
    private readonly token: string,
    private readonly ttl: number,
    private validUntil: number,
  ) {
    this.schedule();
  }

  /** Aborted when the lock was lost. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  private schedule() {
    this.watchdog = setTimeout(() => void this.extend(), this.ttl / 4);
  }

  private async extend() {
    const sentAt = Date.now();
    try {
      const reply = await Promise.race([
        this.client.eval(EXTEND, { keys: [this.key], arguments: [this.token, String(this.ttl)] }),
        sleep(this.ttl / 4).then(() => undefined),
      ]);
      if (this.disposed) return;
      if (reply === 0) return this.controller.abort(new Error(`lost ${this.key}`));
      if (reply === 1) this.validUntil = sentAt + this.ttl;
    } catch {
      // same as no answer, see below
    }
    if (this.disposed) return;
    if (Date.now() > this.validUntil - this.ttl / 2) {
      this.controller.abort(new Error(`could not extend ${this.key}`));
    } else {
      this.schedule();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disposed = true;
    clearTimeout(this.watchdog);
    try {
      await this.client.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn(`release of ${this.key} failed, it expires in ${this.ttl} ms`, err);
    }
  }
}

export class Mutex {
  private readonly ttl: number;
  private readonly retryDelay: number;

  constructor(private readonly client: Client, private readonly key: string, options: MutexOptions = {}) {
    this.ttl = options.ttl ?? 12_000;
    this.retryDelay = options.retryDelay ?? 100;
  }

  /**
   * @example
   *   await using lock = await mutex.acquire({ timeout: 2_000 });
   *   await rebuildIndex(lock.signal);
   */
  async acquire({ timeout = 10_000 }: AcquireOptions = {}): Promise<Held> {
    let timer: NodeJS.Timeout | undefined;
    const expired = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new MutexTimeout(`${this.key} not acquired in ${timeout} ms`)), timeout);
    });
    try {
      return await Promise.race([this.waitForLock(), expired]);
    } finally {
      clearTimeout(timer);
    }
  }

  private async waitForLock(): Promise<Held> {
    for (;;) {
      const token = randomUUID();
      const sentAt = Date.now();
      const reply = await this.client.set(this.key, token, { NX: true, PX: this.ttl });
      if (reply === 'OK') {
        return new Held(this.client, this.key, token, this.ttl, sentAt + this.ttl);
      }
      await sleep(this.retryDelay + Math.random() * this.retryDelay);
    }
  }
}

export async function rebuildSearchIndex(
  client: Client,
  chunks: string[],
  /** Writes one chunk; the search engine accepts it only for the current build version. */
  index: (chunk: string, signal: AbortSignal) => Promise<void>,
) {
  const mutex = new Mutex(client, 'lock:search-index');
  await using lock = await mutex.acquire({ timeout: 2_000 });
  for (const chunk of chunks) {
    lock.signal.throwIfAborted();
    await index(chunk, lock.signal);
  }
}
