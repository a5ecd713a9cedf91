import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`;

export interface Guard {
  /** Throws once the majority is no longer certain. Call before each command to a vehicle. */
  check(): void;
}

/** Lock over independent masters (REDIS_NODES=redis://a:6379,redis://b:6379,redis://c:6379). */
export class FleetLock {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(urls: string[] = (process.env.REDIS_NODES ?? '').split(',').filter(Boolean)) {
    if (urls.length < 3 || new Set(urls).size !== urls.length) throw new Error('need three or more distinct nodes');
    this.nodes = urls.map((u) => {
      const r = new Redis(u, { commandTimeout: 250, maxRetriesPerRequest: 1, enableOfflineQueue: false });
      r.on('error', (e) => console.warn(`fleet lock ${u}: ${e.message}`));
      return r;
    });
    this.quorum = Math.floor(urls.length / 2) + 1;
  }

  private count(results: PromiseSettledResult<unknown>[], wanted: unknown): number {
    return results.filter((r) => r.status === 'fulfilled' && r.value === wanted).length;
  }

  private async unlock(key: string, token: string): Promise<void> {
    // all of them: a node that timed out may hold the key nevertheless
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, key, token)));
  }

  private async attempt(key: string, ttl: number): Promise<{ token: string; until: number } | null> {
    const token = randomUUID();
    const start = performance.now();
    const votes = this.count(await Promise.allSettled(this.nodes.map((n) => n.set(key, token, 'PX', ttl, 'NX'))), 'OK');
    const until = start + ttl - (ttl * 0.01 + 50);
    if (votes >= this.quorum && performance.now() < until) return { token, until };
    await this.unlock(key, token);
    return null;
  }

  async run<T>(vehicle: string, fn: (guard: Guard) => Promise<T>, ttl = 8_000, tries = 8): Promise<T> {
    const key = `dispatch:${vehicle}`;
    let held = await this.attempt(key, ttl);
    for (let i = 1; !held && i < tries; i++) {
      await sleep(100 + Math.random() * 300);
      held = await this.attempt(key, ttl);
    }
    if (!held) throw new Error(`vehicle ${vehicle} is being dispatched elsewhere`);

    const { token } = held;
    let until = held.until;
    let over = false;
    const extend = async (): Promise<void> => {
      while (!over) {
        await sleep(ttl / 4, undefined, { ref: false });
        if (over) return;
        const start = performance.now();
        const votes = this.count(await Promise.allSettled(this.nodes.map((n) => n.eval(EXTEND, 1, key, token, ttl))), 1);
        // too late is too late, even with a majority: there may have been a gap
        if (performance.now() >= until) {
          over = true;
          return;
        }
        if (votes >= this.quorum) until = start + ttl - (ttl * 0.01 + 50);
      }
    };
    void extend();

    try {
      return await fn({
        check: () => {
          if (performance.now() >= until) over = true;
          if (over) throw new Error(`lost the lock on vehicle ${vehicle}`);
        },
      });
    } finally {
      over = true;
      await this.unlock(key, token);
    }
  }
}
