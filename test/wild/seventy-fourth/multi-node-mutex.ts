import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { createClient } from "redis";
import { createLogger } from "../lib/logger";

type RedisNode = ReturnType<typeof createClient>;

const log = createLogger("multi-node-mutex");

export interface MutexOptions {
  /** Lock lifetime in milliseconds. */
  ttl?: number;
  /** Number of additional attempts when the lock is contended. */
  retryCount?: number;
  /** Base delay between attempts in milliseconds. */
  retryDelay?: number;
  /** Upper bound for the random part of the delay in milliseconds. */
  retryJitter?: number;
  /** Clock drift factor, relative to the TTL. */
  driftFactor?: number;
}

export class LockAcquisitionError extends Error {
  constructor(readonly resource: string, readonly attempts: number) {
    super(`Failed to acquire lock on "${resource}" after ${attempts} attempt(s)`);
    this.name = "LockAcquisitionError";
  }
}

export class LockExpiredError extends Error {
  constructor(readonly resource: string) {
    super(`Lock on "${resource}" expired before the routine finished`);
    this.name = "LockExpiredError";
  }
}

const RELEASE_SCRIPT = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

/**
 * Distributed mutex across several independent Redis nodes, following the Redlock algorithm:
 * a lock is held when a majority of the nodes granted it within its validity time.
 *
 * The clients are expected to be connected and to use `disableOfflineQueue` as well as a
 * short `socketTimeout`, so that a node that is down answers with an error quickly.
 */
export class MultiNodeMutex {
  private readonly quorum: number;
  private readonly options: Required<MutexOptions>;

  constructor(private readonly nodes: RedisNode[], options: MutexOptions = {}) {
    if (nodes.length === 0) throw new TypeError("At least one Redis node is required");
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.options = {
      ttl: 10_000,
      retryCount: 8,
      retryDelay: 150,
      retryJitter: 100,
      driftFactor: 0.01,
      ...options,
    };
  }

  /**
   * Runs `routine` under the lock. The routine receives a signal that is aborted at the end
   * of the validity time; it has to stop its work by then.
   */
  async using<T>(resource: string, routine: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { token, validUntil } = await this.acquire(resource);
    const signal = AbortSignal.timeout(Math.max(0, Math.floor(validUntil - performance.now())));
    try {
      const result = await routine(signal);
      if (signal.aborted) throw new LockExpiredError(resource);
      return result;
    } finally {
      await this.release(resource, token);
    }
  }

  private async acquire(resource: string): Promise<{ token: string; validUntil: number }> {
    const { ttl, retryCount, retryDelay, retryJitter, driftFactor } = this.options;
    for (let attempt = 0; attempt <= retryCount; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();

      const results = await Promise.allSettled(
        this.nodes.map((node) => node.set(resource, token, { NX: true, PX: ttl })),
      );
      const granted = results.filter((result) => result.status === "fulfilled").length;

      const validUntil = startedAt + ttl - Math.ceil(ttl * driftFactor) - 2;
      if (granted >= this.quorum && performance.now() < validUntil) {
        log.debug({ resource, granted, attempt }, "lock acquired");
        return { token, validUntil };
      }

      log.debug({ resource, granted, quorum: this.quorum }, "no quorum, rolling back");
      await this.release(resource, token);
      await sleep(retryDelay + Math.random() * retryJitter);
    }
    throw new LockAcquisitionError(resource, retryCount + 1);
  }

  private async release(resource: string, token: string): Promise<void> {
    const results = await Promise.allSettled(
      this.nodes.map((node) => node.eval(RELEASE_SCRIPT, { keys: [resource], arguments: [token] })),
    );
    for (const result of results) {
      if (result.status === "rejected") log.warn({ resource, err: result.reason }, "release failed on a node");
    }
  }
}
