import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Logger } from 'pino';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export class LeaseBusyError extends Error {}
export class LeaseLostError extends Error {}

const usable = (ttlMs: number) => ttlMs * 0.9;

/** A desk's exclusive claim on a story, a rundown or a front-page slot. */
export class Lease {
  readonly #abort = new AbortController();
  #deadline: number;
  #watchdog?: NodeJS.Timeout;
  #heartbeat: NodeJS.Timeout;
  #closed = false;

  constructor(
    private readonly redis: Redis, private readonly logger: Logger, readonly key: string,
    private readonly token: string, private readonly ttlMs: number, sentAt: number,
  ) {
    this.#deadline = sentAt + usable(ttlMs);
    this.#arm();
    this.#heartbeat = setInterval(() => {
      this.extend().catch((err) => this.logger.warn({ err, key }, 'lease extension failed'));
    }, ttlMs / 3);
  }

  /** Aborts as soon as the lease can no longer be counted on. Pass it to everything the work awaits. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** To be called right before each write. */
  assertHeld(): void {
    if (this.#closed || this.signal.aborted || performance.now() >= this.#deadline) {
      throw new LeaseLostError(`lease on ${this.key} is not held`);
    }
  }

  async extend(): Promise<void> {
    this.assertHeld();
    const sentAt = performance.now();
    const kept = await this.redis.eval(EXTEND, 1, this.key, this.token, String(this.ttlMs));
    if (this.#closed || this.signal.aborted) return;
    if (kept !== 1) return this.#lose();
    this.#deadline = Math.max(this.#deadline, sentAt + usable(this.ttlMs));
    this.#arm();
  }

  async release(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopTimers();
    try {
      await this.redis.eval(RELEASE, 1, this.key, this.token);
    } catch (err) {
      this.logger.warn({ err, key: this.key }, 'lease left to expire');
    }
  }

  #arm(): void {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lose(), Math.max(0, this.#deadline - performance.now()));
  }

  #lose(): void {
    this.#stopTimers();
    this.#abort.abort(new LeaseLostError(`lease on ${this.key} was lost`));
  }

  #stopTimers(): void {
    clearTimeout(this.#watchdog);
    clearInterval(this.#heartbeat);
  }
}

export interface DeskLeasesOptions { redis: Redis; logger: Logger; prefix?: string; ttlMs?: number; waitMs?: number }

export class DeskLeases {
  constructor(private readonly opts: DeskLeasesOptions) {}

  async acquire(name: string): Promise<Lease> {
    const { redis, logger, prefix = 'desk', ttlMs = 15_000, waitMs = 5_000 } = this.opts;
    const key = `${prefix}:lease:${name}`;
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const token = randomUUID();
      const sentAt = performance.now();
      try {
        if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') {
          if (performance.now() - sentAt < ttlMs / 2) return new Lease(redis, logger, key, token, ttlMs, sentAt);
          await redis.eval(RELEASE, 1, key, token);
        }
      } catch (err) {
        redis.eval(RELEASE, 1, key, token).catch(() => {});
        throw err;
      }
      if (performance.now() >= giveUpAt) throw new LeaseBusyError(`${name} is held by another desk`);
      await sleep(50 + Math.random() * 150);
    }
  }

  async run<T>(name: string, work: (lease: Lease) => Promise<T>): Promise<T> {
    const lease = await this.acquire(name);
    try {
      const result = await work(lease);
      lease.assertHeld();
      return result;
    } finally {
      await lease.release();
    }
  }
}
