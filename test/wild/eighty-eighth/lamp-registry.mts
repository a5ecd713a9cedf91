import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

export interface Character {
  pattern: string;
  periodMs: number;
  colour: 'W' | 'R' | 'G';
}

export class Superseded extends Error {}
export class LampBusy extends Error {}

export interface LampRegistryOptions {
  ttlMs?: number;
  waitMs?: number;
}

/** Light characters of the lamps. Writes carry a fencing token, a late writer cannot undo a newer one. */
export class LampRegistry {
  readonly #redis: Client;
  readonly #ttlMs: number;
  readonly #waitMs: number;

  constructor(redis: Client, { ttlMs = 10_000, waitMs = 15_000 }: LampRegistryOptions = {}) {
    this.#redis = redis;
    this.#ttlMs = ttlMs;
    this.#waitMs = waitMs;
  }

  async update(lamp: string, change: (now: Partial<Character>) => Promise<Character>): Promise<Character> {
    const k = { lock: `lamp:{${lamp}}:lock`, fence: `lamp:{${lamp}}:fence`, state: `lamp:{${lamp}}:state` };
    const fence = await this.#redis.incr(k.fence);
    const unlock = await this.#lock(k.lock);
    try {
      const doc = await this.#redis.hGet(k.state, 'doc');
      const next = await change(doc ? (JSON.parse(doc) as Character) : {});
      const written = await this.#redis.eval(WRITE, {
        keys: [k.state],
        arguments: [String(fence), JSON.stringify(next)],
      });
      if (written !== 1) throw new Superseded(`${lamp}: write with fence ${fence} refused`);
      return next;
    } finally {
      await unlock();
    }
  }

  async #lock(key: string): Promise<() => Promise<void>> {
    const token = randomUUID();
    const giveUpAt = Date.now() + this.#waitMs;
    while ((await this.#redis.set(key, token, { NX: true, PX: this.#ttlMs })) !== 'OK') {
      if (Date.now() > giveUpAt) throw new LampBusy(key);
      await sleep(80 + Math.random() * 120);
    }
    return async () => {
      await this.#redis
        .eval(UNLOCK, { keys: [key], arguments: [token] })
        .catch((err: Error) => console.warn(`${key} not released: ${err.message}`));
    };
  }
}

const WRITE = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'doc', ARGV[2])
return 1`;
const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
