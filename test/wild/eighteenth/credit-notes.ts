import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Hold {
  token: string;
  depth: number;
  validUntil: number;
}

/**
 * Reentrant lock: code that holds a name may lock it again (issueCreditNote
 * below calls nextNumber, which is also called alone). Only the outermost
 * unlock gives the key back.
 */
export class ReentrantLock {
  readonly #redis: Redis;
  readonly #ttlMs: number;
  readonly #holds = new Map<string, Hold>();

  constructor(redis: Redis, ttlMs = 20_000) {
    this.#redis = redis;
    this.#ttlMs = ttlMs;
  }

  async run<T>(name: string, work: (assertHeld: () => void) => Promise<T>, waitMs = 10_000): Promise<T> {
    const hold = await this.#enter(name, waitMs);
    const assertHeld = () => {
      if (performance.now() >= hold.validUntil) throw new Error(`lock ${name} expired`);
    };
    try {
      assertHeld();
      return await work(assertHeld);
    } finally {
      await this.#leave(name, hold);
    }
  }

  async #enter(name: string, waitMs: number): Promise<Hold> {
    const giveUpAt = performance.now() + waitMs;
    const token = randomUUID();
    for (;;) {
      const current = this.#holds.get(name);
      if (current && performance.now() < current.validUntil) {
        current.depth++;
        return current;
      }
      const sentAt = performance.now();
      if ((await this.#redis.set(`lock:${name}`, token, "PX", this.#ttlMs, "NX")) === "OK") {
        const hold = { token, depth: 1, validUntil: sentAt + this.#ttlMs * 0.95 };
        this.#holds.set(name, hold);
        return hold;
      }
      if (performance.now() >= giveUpAt) throw new Error(`lock ${name} is busy`);
      await sleep(30 + Math.random() * 90);
    }
  }

  async #leave(name: string, hold: Hold): Promise<void> {
    if (--hold.depth > 0) return;
    // after an expiry a newer hold may be in the map already
    if (this.#holds.get(name) === hold) this.#holds.delete(name);
    await this.#redis.eval(RELEASE, 1, `lock:${name}`, hold.token).catch((err: Error) => {
      console.warn(`lock ${name} left to its TTL: ${err.message}`);
    });
  }
}

export interface CreditNoteStore {
  lastNumber(series: string): Promise<number>;
  saveNumber(series: string, number: number): Promise<void>;
  insert(series: string, number: number, body: unknown): Promise<void>;
}

export class CreditNotes {
  readonly #lock: ReentrantLock;
  readonly #store: CreditNoteStore;

  // one instance per server process, used by all requests
  constructor(redis: Redis, store: CreditNoteStore) {
    this.#lock = new ReentrantLock(redis);
    this.#store = store;
  }

  nextNumber(series: string): Promise<number> {
    return this.#lock.run(`credit-notes:${series}`, async (assertHeld) => {
      const number = (await this.#store.lastNumber(series)) + 1;
      assertHeld();
      await this.#store.saveNumber(series, number);
      return number;
    });
  }

  issueCreditNote(series: string, body: unknown): Promise<number> {
    return this.#lock.run(`credit-notes:${series}`, async (assertHeld) => {
      const number = await this.nextNumber(series);
      assertHeld();
      await this.#store.insert(series, number, body);
      return number;
    });
  }
}
