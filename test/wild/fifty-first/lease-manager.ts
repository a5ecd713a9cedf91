import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const instanceId = randomUUID();

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const RENEW = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

export class LeaseUnavailable extends Error {}
export class LeaseLost extends Error {}

export interface LeaseOptions {
  ttlMs?: number;
  waitMs?: number;
}

export class LeaseManager {
  readonly #redis: Redis;
  readonly #prefix: string;

  constructor(redis: Redis, prefix = "lease") {
    this.#redis = redis;
    this.#prefix = prefix;
  }

  async #acquire(key: string, ttlMs: number, waitMs: number): Promise<number> {
    const giveUp = performance.now() + waitMs;
    for (;;) {
      const asked = performance.now();
      const reply = await this.#redis.set(key, instanceId, "PX", ttlMs, "NX");
      if (reply === "OK") return asked;
      if (performance.now() >= giveUp) throw new LeaseUnavailable(`${key} is taken`);
      await sleep(40 + Math.random() * 120);
    }
  }

  async #release(key: string): Promise<void> {
    try {
      await this.#redis.eval(RELEASE, 1, key, instanceId);
    } catch (err) {
      console.warn("release", key, err);
    }
  }

  async run<T>(
    name: string,
    work: (signal: AbortSignal) => Promise<T>,
    { ttlMs = 12_000, waitMs = 6_000 }: LeaseOptions = {},
  ): Promise<T> {
    const key = `${this.#prefix}:${name}`;
    const asked = await this.#acquire(key, ttlMs, waitMs);

    const controller = new AbortController();
    const lose = () => controller.abort(new LeaseLost(`${key} was lost`));
    let finished = false;
    let deadline = setTimeout(lose, Math.max(0, asked + ttlMs * 0.9 - performance.now()));
    const heartbeat = setInterval(async () => {
      const sent = performance.now();
      try {
        const renewed = await this.#redis.eval(RENEW, 1, key, instanceId, ttlMs);
        if (finished || controller.signal.aborted) return;
        if (renewed !== 1) return lose();
        clearTimeout(deadline);
        deadline = setTimeout(lose, Math.max(0, sent + ttlMs * 0.9 - performance.now()));
      } catch (err) {
        console.warn("renew", key, err);
      }
    }, ttlMs / 3);

    try {
      const result = await work(controller.signal);
      controller.signal.throwIfAborted();
      return result;
    } finally {
      finished = true;
      clearInterval(heartbeat);
      clearTimeout(deadline);
      await this.#release(key);
    }
  }
}
