import { EventEmitter } from "node:events";
import { randomUUID } from "node:crypto";
import Redis from "ioredis";

export interface LeaseOptions {
  ttlMs?: number;
  renewEveryMs?: number;
}

const RELEASE_SCRIPT = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

/**
 * A lease that is kept alive in the background for as long as it is held.
 *
 * Events:
 *  - "lost"  the lease could not be kept
 */
export class Lease extends EventEmitter {
  private readonly token = randomUUID();
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout | null = null;
  private readonly ttlMs: number;
  private readonly renewEveryMs: number;

  constructor(
    private readonly redis: Redis,
    readonly key: string,
    { ttlMs = 15_000, renewEveryMs = 5_000 }: LeaseOptions = {},
  ) {
    super();
    this.ttlMs = ttlMs;
    this.renewEveryMs = renewEveryMs;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  async tryAcquire(): Promise<boolean> {
    const reply = await this.redis.set(this.key, this.token, "PX", this.ttlMs, "NX");
    if (reply !== "OK") return false;
    this.timer = setInterval(() => void this.renew(), this.renewEveryMs);
    return true;
  }

  private async renew(): Promise<void> {
    try {
      const kept = await this.redis.pexpire(this.key, this.ttlMs);
      if (kept !== 1) this.fail(new Error(`lease ${this.key} is gone`));
    } catch (err) {
      this.fail(err as Error);
    }
  }

  private fail(reason: Error): void {
    this.stopTimer();
    this.controller.abort(reason);
    this.emit("lost", reason);
  }

  private stopTimer(): void {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
  }

  async release(): Promise<void> {
    this.stopTimer();
    try {
      await this.redis.eval(RELEASE_SCRIPT, 1, this.key, this.token);
    } catch (err) {
      console.warn(`lease ${this.key}: release failed, leaving it to expire`, err);
    }
  }
}

export async function runWithLease<T>(
  redis: Redis,
  key: string,
  fn: (signal: AbortSignal) => Promise<T>,
  options?: LeaseOptions,
): Promise<T | undefined> {
  const lease = new Lease(redis, key, options);
  if (!(await lease.tryAcquire())) return undefined;
  try {
    return await fn(lease.signal);
  } finally {
    await lease.release();
  }
}

// worker.ts:
//   const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2000 });
//   await runWithLease(redis, "lease:ledger-export", async (signal) => {
//     for await (const chunk of ledger.chunks()) {
//       signal.throwIfAborted();
//       await sftp.append("/outbox/ledger.csv", chunk);
//     }
//   });
