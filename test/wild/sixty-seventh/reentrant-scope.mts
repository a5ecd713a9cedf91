import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

export type Client = ReturnType<typeof createClient>;

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const REFRESH = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

interface Entry {
  token: string;
  depth: number;
  validUntil: number;
  ready: Promise<void>;
}

export interface Guard extends AsyncDisposable {
  /** Throws unless the lock is ours for at least another `ms`. */
  ensure(ms?: number): void;
}

/**
 * One scope per request. Within a scope the same lock can be taken again by
 * nested calls; the last guard that is disposed gives it back. Scopes share
 * nothing, so two requests in one process exclude each other like any others.
 */
export class LockScope {
  readonly #entries = new Map<string, Entry>();

  constructor(
    readonly client: Client,
    readonly ttlMs = 10_000,
    readonly waitMs = 4_000,
  ) {}

  async lock(key: string): Promise<Guard> {
    let entry = this.#entries.get(key);
    if (entry) {
      entry.depth++;
      try {
        await entry.ready;
        await this.#refresh(key, entry);
      } catch (err) {
        await this.#leave(key, entry);
        throw err;
      }
    } else {
      entry = { token: randomUUID(), depth: 1, validUntil: 0, ready: Promise.resolve() };
      this.#entries.set(key, entry);
      entry.ready = this.#take(key, entry);
      try {
        await entry.ready;
      } catch (err) {
        await this.#leave(key, entry);
        throw err;
      }
    }

    const mine = entry;
    let disposed = false;
    return {
      ensure: (ms = 500) => {
        if (disposed) throw new Error(`${key}: guard used after disposal`);
        if (Date.now() + ms > mine.validUntil) throw new Error(`${key}: lock is about to run out`);
      },
      [Symbol.asyncDispose]: async () => {
        if (disposed) return;
        disposed = true;
        await this.#leave(key, mine);
      },
    };
  }

  async #take(key: string, entry: Entry) {
    const giveUp = Date.now() + this.waitMs;
    for (;;) {
      const sentAt = Date.now();
      const reply = await this.client.set(key, entry.token, { NX: true, PX: this.ttlMs });
      if (reply === 'OK') {
        entry.validUntil = sentAt + this.ttlMs;
        return;
      }
      if (Date.now() > giveUp) throw new Error(`${key}: timeout`);
      await sleep(25 + Math.random() * 75);
    }
  }

  async #refresh(key: string, entry: Entry) {
    const sentAt = Date.now();
    const n = await this.client.eval(REFRESH, { keys: [key], arguments: [entry.token, String(this.ttlMs)] });
    if (n !== 1) {
      entry.validUntil = 0; // the outer guards must notice as well
      throw new Error(`${key}: lock was lost`);
    }
    entry.validUntil = Math.max(entry.validUntil, sentAt + this.ttlMs);
  }

  async #leave(key: string, entry: Entry) {
    if (--entry.depth > 0) return;
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
    try {
      await this.client.eval(UNLOCK, { keys: [key], arguments: [entry.token] });
    } catch (err) {
      console.warn(`${key}: unlock failed, it will run out:`, err);
    }
  }
}

// ---------------------------------------------------------------------------

interface Carts {
  load(id: string): Promise<{ version: number; items: string[] }>;
  /** Conditional on version; rejects if somebody else was faster. */
  save(id: string, version: number, items: string[]): Promise<void>;
}

export async function addItem(scope: LockScope, carts: Carts, cartId: string, sku: string) {
  await using guard = await scope.lock(`cart:${cartId}`);
  const { version, items } = await carts.load(cartId);
  guard.ensure();
  await carts.save(cartId, version, [...items, sku]);
}

export async function addBundle(scope: LockScope, carts: Carts, cartId: string, skus: string[]) {
  await using guard = await scope.lock(`cart:${cartId}`);
  for (const sku of skus) {
    guard.ensure(1_000);
    await addItem(scope, carts, cartId, sku);
  }
}
