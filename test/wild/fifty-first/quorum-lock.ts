import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class NoQuorumError extends Error {}

export interface QuorumLockOptions {
  ttlMs: number;
  waitMs: number;
  nodeTimeoutMs: number;
}

const defaults: QuorumLockOptions = { ttlMs: 20_000, waitMs: 8_000, nodeTimeoutMs: 150 };

async function answer<T>(call: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([call.catch(() => undefined), late]);
  } finally {
    clearTimeout(timer);
  }
}

export class QuorumLock {
  readonly #nodes: Redis[];
  readonly #options: QuorumLockOptions;

  constructor(urls: string[], options: Partial<QuorumLockOptions> = {}) {
    this.#options = { ...defaults, ...options };
    this.#nodes = urls.map((url) => {
      const node = new Redis(url, { maxRetriesPerRequest: 1 });
      node.on("error", (err) => console.warn("lock node", url, err.message));
      return node;
    });
  }

  async #acquire(key: string): Promise<{ token: string; validMs: number }> {
    const { ttlMs, waitMs, nodeTimeoutMs } = this.#options;
    const quorum = Math.floor(this.#nodes.length / 2) + 1;
    const drift = Math.ceil(ttlMs * 0.01) + 2;
    const giveUp = performance.now() + waitMs;
    do {
      const token = randomBytes(20).toString("hex");
      const start = performance.now();
      const replies = await Promise.all(
        this.#nodes.map((node) => answer(node.set(key, token, "PX", ttlMs, "NX"), nodeTimeoutMs)),
      );
      const votes = replies.filter((reply) => reply === "OK").length;
      const validMs = Math.floor(ttlMs - (performance.now() - start) - drift);
      if (votes >= quorum && validMs > ttlMs / 2) return { token, validMs };
      await this.#releaseAll(key, token);
      await sleep(50 + Math.random() * 200);
    } while (performance.now() < giveUp);
    throw new NoQuorumError(`no quorum for ${key}`);
  }

  async #releaseAll(key: string, token: string): Promise<void> {
    const { nodeTimeoutMs } = this.#options;
    await Promise.all(
      this.#nodes.map((node) => answer(node.eval(UNLOCK, 1, key, token), nodeTimeoutMs)),
    );
  }

  async run<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `qlock:${name}`;
    const { token, validMs } = await this.#acquire(key);
    const signal = AbortSignal.timeout(validMs);
    try {
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await this.#releaseAll(key, token);
    }
  }

  close(): void {
    for (const node of this.#nodes) node.disconnect();
  }
}
