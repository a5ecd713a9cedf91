import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * bellhop.using(resource, ttlMs, fn): runs fn while holding the resource on one
 * Redis. The hold is renewed at a third of the ttl; if that fails until the time
 * is up `trip.signal` aborts and `trip.remaining()` is 0.
 */
const PUT_DOWN = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;
const CARRY_ON = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`;

export interface Trip {
  signal: AbortSignal;
  remaining(): number;
}

export class Bellhop {
  readonly #redis: Redis;
  readonly #waitMs: number;

  constructor(redis: Redis, waitMs = 2000) {
    this.#redis = redis;
    this.#waitMs = waitMs;
  }

  async using<T>(resource: string, ttlMs: number, fn: (trip: Trip) => Promise<T>): Promise<T> {
    const key = `bellhop:${resource}`;
    const token = randomUUID();
    let deadline = await this.#pickUp(key, token, ttlMs);

    const lost = new AbortController();
    const remaining = () => (lost.signal.aborted ? 0 : Math.max(0, deadline - performance.now()));
    const giveUp = (why: string) => {
      clearInterval(renewal);
      clearTimeout(alarm);
      lost.abort(new Error(`${key}: ${why}`));
    };
    let alarm = setTimeout(giveUp, remaining(), 'expired');
    const renewal = setInterval(async () => {
      if (remaining() === 0) return giveUp('expired');
      const from = performance.now();
      try {
        const ok = await this.#soon(this.#redis.eval(CARRY_ON, 1, key, token, ttlMs), ttlMs / 3);
        if (remaining() === 0) return giveUp('expired');
        if (ok !== 1) return giveUp('taken away');
        deadline = Math.max(deadline, from + usable(ttlMs));
        if (finished) return;
        clearTimeout(alarm);
        alarm = setTimeout(giveUp, remaining(), 'expired');
      } catch (err) {
        console.warn(`bellhop: renewing ${key} failed, trying again`, err);
      }
    }, ttlMs / 3);
    let finished = false;

    const result = await fn({ signal: lost.signal, remaining });
    if (remaining() === 0) throw new Error(`${key}: lost before the work was over`);

    finished = true;
    clearInterval(renewal);
    clearTimeout(alarm);
    await this.#putDown(key, token).catch((err) => console.warn(`bellhop: ${key} will have to expire`, err));
    return result;
  }

  async #pickUp(key: string, token: string, ttlMs: number): Promise<number> {
    const stop = performance.now() + this.#waitMs;
    do {
      const from = performance.now();
      let reply: string | null;
      try {
        reply = await this.#soon(this.#redis.set(key, token, 'PX', ttlMs, 'NX'), 1000);
      } catch (err) {
        this.#putDown(key, token).catch(() => {});
        throw err;
      }
      if (reply === 'OK') {
        if (performance.now() < from + usable(ttlMs)) return from + usable(ttlMs);
        await this.#putDown(key, token);
      }
      await sleep(50 + Math.random() * 50);
    } while (performance.now() < stop);
    throw new Error(`${key}: somebody else is carrying it`);
  }

  #putDown(key: string, token: string) {
    return this.#soon(this.#redis.eval(PUT_DOWN, 1, key, token), 1000);
  }

  #soon<T>(promise: Promise<T>, ms: number): Promise<T> {
    let timer: NodeJS.Timeout;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no reply in ${ms} ms`)), ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }
}

const usable = (ttlMs: number) => ttlMs - ttlMs * 0.01 - 2;

export const make = ({ nodes }: { nodes: Redis[] }) => new Bellhop(nodes[0]);
