import { EventEmitter } from "node:events";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

const TTL_MS = 10_000;
const RENEW_MS = 2_500;

const RESIGN = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class LeaderLease extends EventEmitter {
  readonly #redis: Redis;
  readonly #key: string;
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(url: string, group: string) {
    super();
    this.#key = `leader:${group}`;
    this.#redis = new Redis(url, { commandTimeout: 1_000, maxRetriesPerRequest: 0 });
    this.#redis.on("error", (err) => this.emit("warning", err));
  }

  start(): void {
    this.#running ??= this.#campaign();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    this.#redis.disconnect();
  }

  async #campaign(): Promise<void> {
    while (!this.#stopped) {
      const token = randomUUID();
      const askedAt = performance.now();
      try {
        const reply = await this.#redis.set(this.#key, token, "PX", TTL_MS, "NX");
        if (reply === "OK") await this.#lead(token, askedAt);
      } catch (err) {
        this.emit("warning", err);
      }
      if (!this.#stopped) await sleep(RENEW_MS + Math.random() * 500);
    }
  }

  async #lead(token: string, askedAt: number): Promise<void> {
    const term = new AbortController();
    let confirmedAt = askedAt;
    try {
      this.emit("elected", term.signal);
      while (!this.#stopped) {
        await sleep(RENEW_MS);
        const sentAt = performance.now();
        try {
          const renewed = await this.#redis.pexpire(this.#key, TTL_MS);
          if (renewed !== 1) return;
          confirmedAt = sentAt;
        } catch (err) {
          this.emit("warning", err);
          if (performance.now() - confirmedAt > TTL_MS * 0.6) return;
        }
      }
    } finally {
      term.abort(new Error("no longer leader"));
      this.emit("demoted");
      await this.#redis
        .eval(RESIGN, 1, this.#key, token)
        .catch((err) => this.emit("warning", err));
    }
  }
}
