import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

async function drop(client: Client, key: string, token: string): Promise<void> {
  try {
    await client.eval(UNLOCK, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn("could not drop lease", key, err);
  }
}

export class LeaseTimeoutError extends Error {
  constructor(name: string, waitMs: number) {
    super(`no lease on ${name} within ${waitMs} ms`);
    this.name = "LeaseTimeoutError";
  }
}

export class Lease implements AsyncDisposable {
  readonly #client: Client;
  readonly #key: string;
  readonly #token: string;
  readonly #endsAt: number;
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(client: Client, key: string, token: string, endsAt: number) {
    this.#client = client;
    this.#key = key;
    this.#token = token;
    this.#endsAt = endsAt;
    this.#timer = setTimeout(() => this.#end(), endsAt - performance.now());
  }

  static async take(client: Client, name: string, leaseMs = 30_000, waitMs = 10_000): Promise<Lease> {
    const key = `lease:${name}`;
    const until = performance.now() + waitMs;
    for (;;) {
      const token = randomUUID();
      const endsAt = performance.now() + leaseMs * 0.9;
      let reply: string | null;
      try {
        reply = await client.set(key, token, { NX: true, PX: leaseMs });
      } catch (err) {
        await drop(client, key, token);
        throw err;
      }
      if (reply === "OK") {
        if (performance.now() < endsAt) return new Lease(client, key, token, endsAt);
        await drop(client, key, token);
      }
      if (performance.now() >= until) throw new LeaseTimeoutError(name, waitMs);
      await sleep(25 + Math.random() * 75);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  assertLive(): void {
    if (performance.now() >= this.#endsAt) this.#end();
    this.signal.throwIfAborted();
  }

  #end(): void {
    this.#controller.abort(new Error(`lease ${this.#key} ended`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    await drop(this.#client, this.#key, this.#token);
  }
}

export async function underLease<T>(
  client: Client,
  name: string,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  await using lease = await Lease.take(client, name);
  const result = await work(lease);
  lease.assertLive();
  return result;
}
