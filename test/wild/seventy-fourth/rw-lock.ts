import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

export interface ReadWriteLockOptions {
  /** Maximum time a reader or writer may hold the lock, in milliseconds. */
  holdMs?: number;
  /** Maximum time to wait for the lock, in milliseconds. */
  waitMs?: number;
  /** Polling interval in milliseconds. */
  pollMs?: number;
}

export type Mode = "read" | "write";

export class ReadWriteLockTimeout extends Error {
  constructor(readonly resource: string, readonly mode: Mode) {
    super(`Timed out waiting for ${mode} access to "${resource}"`);
    this.name = "ReadWriteLockTimeout";
  }
}

const RELEASE_WRITER = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/** Drops readers whose time is up, then counts the rest (by the clock of the server). */
const COUNT_READERS = `
local t = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', t[1] * 1000 + math.floor(t[2] / 1000))
return redis.call('ZCARD', KEYS[1])`;

const ADD_READER = `
local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2], ARGV[1])`;

/**
 * Read-write lock: any number of readers, or a single writer.
 *
 * A writer announces itself first and then waits for the readers to drain, so that a steady
 * stream of readers cannot starve it. The callbacks receive a signal that is aborted before
 * the hold time is over; they are expected to stop by then.
 */
export class ReadWriteLock {
  private readonly writerKey: string;
  private readonly readersKey: string;
  private readonly holdMs: number;
  private readonly waitMs: number;
  private readonly pollMs: number;

  constructor(
    private readonly redis: Redis,
    private readonly resource: string,
    { holdMs = 20_000, waitMs = 10_000, pollMs = 50 }: ReadWriteLockOptions = {},
  ) {
    this.writerKey = `{rw:${resource}}:writer`;
    this.readersKey = `{rw:${resource}}:readers`;
    this.holdMs = holdMs;
    this.waitMs = waitMs;
    this.pollMs = pollMs;
  }

  /** Runs `fn` with shared access. */
  async read<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const reader = randomUUID();
    await this.waitUntil("read", async () => (await this.redis.exists(this.writerKey)) === 0);

    const signal = AbortSignal.timeout(Math.floor(this.holdMs * 0.9));
    await this.redis.eval(ADD_READER, 1, this.readersKey, reader, this.holdMs);
    try {
      return await fn(signal);
    } finally {
      await this.redis.zrem(this.readersKey, reader);
    }
  }

  /** Runs `fn` with exclusive access. */
  async write<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const writer = randomUUID();
    // The key covers the time spent waiting for readers as well as the work itself.
    const ttl = this.waitMs + this.holdMs;
    await this.waitUntil("write", async () => {
      return (await this.redis.set(this.writerKey, writer, "PX", ttl, "NX")) === "OK";
    });
    const lockedAt = performance.now();

    try {
      await this.waitUntil("write", async () => {
        return Number(await this.redis.eval(COUNT_READERS, 1, this.readersKey)) === 0;
      });
      const left = this.waitMs + this.holdMs * 0.9 - (performance.now() - lockedAt);
      return await fn(AbortSignal.timeout(Math.max(0, Math.floor(left))));
    } finally {
      await this.redis.eval(RELEASE_WRITER, 1, this.writerKey, writer);
    }
  }

  private async waitUntil(mode: Mode, attempt: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + this.waitMs;
    while (!(await attempt())) {
      if (performance.now() >= deadline) throw new ReadWriteLockTimeout(this.resource, mode);
      await sleep(this.pollMs + Math.random() * this.pollMs);
    }
  }
}
