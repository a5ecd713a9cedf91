import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

// Independent masters, no replicas. Each runs with `appendfsync always`, so a
// node that comes back after a crash still knows the votes it has given.
export function connectNodes(list = process.env.REDIS_NODES ?? ""): Redis[] {
  const urls = [...new Set(list.split(",").map((url) => url.trim()).filter(Boolean))];
  if (urls.length < 3) throw new Error("REDIS_NODES needs at least three nodes");
  return urls.map((url) => {
    // A node that is down has to say so at once, and nothing is sent twice.
    const node = new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 0, commandTimeout: 250 });
    node.on("error", (err) => console.warn(`[quorum] ${node.options.host}: ${err.message}`));
    return node;
  });
}

export class QuorumLease {
  readonly signal: AbortSignal;
  readonly #lost = new AbortController();
  readonly #validUntil: number;
  readonly #timer: NodeJS.Timeout;
  readonly #giveBack: () => Promise<void>;

  constructor(validUntil: number, giveBack: () => Promise<void>) {
    this.signal = this.#lost.signal;
    this.#validUntil = validUntil;
    this.#giveBack = giveBack;
    this.#timer = setTimeout(() => this.#expire(), validUntil - performance.now());
  }

  #expire(): void {
    this.#lost.abort(new Error("lock validity is over"));
  }

  /** For right before a side effect; throws once the lock may be someone else's. */
  assertValid(): void {
    if (performance.now() >= this.#validUntil) this.#expire();
    this.signal.throwIfAborted();
  }

  async release(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#giveBack();
  }
}

export class QuorumLock {
  readonly #nodes: Redis[];
  readonly #quorum: number;

  constructor(nodes: Redis[]) {
    this.#nodes = nodes;
    this.#quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttlMs: number, attempts = 10): Promise<QuorumLease | null> {
    const drift = Math.ceil(ttlMs * 0.01) + 2;
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      const votes = await Promise.allSettled(
        this.#nodes.map((node) => node.set(resource, token, "PX", ttlMs, "NX")),
      );
      const granted = votes.filter((v) => v.status === "fulfilled" && v.value === "OK").length;
      const validUntil = startedAt + ttlMs - drift;
      if (granted >= this.#quorum && performance.now() < validUntil) {
        return new QuorumLease(validUntil, () => this.#release(resource, token));
      }
      await this.#release(resource, token);
      // rivals that split the vote should not meet again at the same moment
      if (attempt < attempts) await sleep(50 + Math.random() * 250);
    }
    return null;
  }

  // Every node, also those that refused or did not answer: a SET that timed out
  // here may have been carried out there.
  async #release(resource: string, token: string): Promise<void> {
    await Promise.allSettled(this.#nodes.map((node) => node.eval(RELEASE, 1, resource, token)));
  }
}

export type Move = (signal: AbortSignal) => Promise<void>;

export async function rebalanceShard(lock: QuorumLock, shard: string, plan: () => Promise<Move[]>) {
  const lease = await lock.acquire(`lock:rebalance:${shard}`, 30_000);
  if (!lease) throw new Error(`shard ${shard} is being rebalanced elsewhere`);
  try {
    for (const move of await plan()) {
      lease.assertValid();
      await move(lease.signal);
    }
    lease.assertValid();
  } finally {
    await lease.release();
  }
}
