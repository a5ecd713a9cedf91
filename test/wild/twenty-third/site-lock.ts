import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import type { Redis } from "ioredis";

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const NODE_TIMEOUT = 250;

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("node too slow")), ms);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/**
 * A lock over independent Redis servers, one per site (we run five,
 * all with AOF and fsync on every write).
 *
 *   const lock = await SiteLock.acquire(nodes, "reindex", 10_000);
 *   if (!lock) return;
 *   try { ...; if (!(await lock.extend())) return; ... } finally { await lock.release(); }
 *
 * Check isValid before each step; a step takes well under a second.
 */
export class SiteLock {
  #nodes: Redis[];
  #key: string;
  #token = randomUUID();
  #ttl: number;
  #validUntil = 0;
  #released = false;

  private constructor(nodes: Redis[], key: string, ttl: number) {
    this.#nodes = nodes;
    this.#key = key;
    this.#ttl = ttl;
  }

  static async acquire(nodes: Redis[], name: string, ttl: number, tries = 5): Promise<SiteLock | null> {
    for (let i = 0; i < tries; i++) {
      // a new object, so a new token, for each try
      const lock = new SiteLock(nodes, `site-lock:${name}`, ttl);
      if (await lock.#take()) return lock;
      await lock.release();
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 300));
    }
    return null;
  }

  get isValid(): boolean {
    return performance.now() + 1_000 < this.#validUntil;
  }

  async #take(): Promise<boolean> {
    return this.#renewBy(async (n) => (await n.set(this.#key, this.#token, "PX", this.#ttl, "NX")) === "OK");
  }

  async extend(): Promise<boolean> {
    if (!this.isValid) return false;
    return this.#renewBy(async (n) => (await n.eval(EXTEND, 1, this.#key, this.#token, this.#ttl)) === 1);
  }

  async release(): Promise<void> {
    this.#released = true;
    this.#validUntil = 0;
    // all of them, also those that did not answer before
    await this.#ask((n) => n.eval(RELEASE, 1, this.#key, this.#token));
  }

  /** The time spent asking, and some clock drift, comes off the validity. */
  async #renewBy(op: (node: Redis) => Promise<boolean>): Promise<boolean> {
    const started = performance.now();
    const votes = await this.#ask(op);
    const yes = votes.filter(Boolean).length;
    const drift = this.#ttl * 0.01 + 2;
    const agreed = yes >= Math.floor(votes.length / 2) + 1;
    this.#validUntil = agreed && !this.#released ? started + this.#ttl - drift : 0;
    return this.isValid;
  }

  async #ask<T>(op: (node: Redis) => Promise<T>): Promise<T[]> {
    const settled = await Promise.allSettled(this.#nodes.map((n) => within(NODE_TIMEOUT, op(n))));
    return settled.flatMap((s) => (s.status === "fulfilled" ? [s.value] : []));
  }
}
