import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface LockSettings {
  /** how long a holder may work, in seconds */
  ttl: number;
  /** how long to wait for the lock, in seconds */
  wait: number;
}

export class LockNotAvailable extends Error {
  constructor(resource: string) {
    super(`lock on ${resource} not available`);
    this.name = "LockNotAvailable";
  }
}

export class DistributedLock {
  readonly #client: Client;
  readonly #settings: LockSettings;

  constructor(client: Client, settings: Partial<LockSettings> = {}) {
    this.#client = client;
    this.#settings = { ttl: 60, wait: 10, ...settings };
  }

  async #acquire(key: string, token: string): Promise<void> {
    const { ttl, wait } = this.#settings;
    const until = Date.now() + wait * 1000;
    for (;;) {
      const reply = await this.#client.set(key, token, { NX: true, PX: ttl });
      if (reply === "OK") return;
      if (Date.now() >= until) throw new LockNotAvailable(key);
      await sleep(100 + Math.random() * 100);
    }
  }

  async #release(key: string, token: string): Promise<void> {
    try {
      await this.#client.eval(UNLOCK, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn("unlock", key, err);
    }
  }

  async run<T>(resource: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `lock:${resource}`;
    const token = randomUUID();
    try {
      await this.#acquire(key, token);
      const signal = AbortSignal.timeout(this.#settings.ttl * 900);
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await this.#release(key, token);
    }
  }
}
