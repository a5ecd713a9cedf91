import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const TTL = 10_000;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;

interface Lease {
  /** throws when the lease has run out; call it right before each write */
  check(): void;
}

export function createCustomerLock(redis: Redis) {
  // Services call each other, each of them locks the customer. Whoever is in a
  // call chain that has the lock already must not wait for itself.
  const held = new AsyncLocalStorage<Map<string, Lease>>();

  return async function withCustomer<T>(id: string, fn: (lease: Lease) => Promise<T>, waitMs = 5_000): Promise<T> {
    const key = `customer:${id}:lock`;
    const outer = held.getStore();
    const already = outer?.get(key);
    if (already) return fn(already);

    const giveUp = performance.now() + waitMs;
    let token: string;
    let until: number;
    for (;;) {
      token = randomUUID();
      until = performance.now() + TTL - 300;
      if ((await redis.set(key, token, 'PX', TTL, 'NX')) === 'OK') break;
      if (performance.now() > giveUp) throw new Error(`customer ${id} is locked`);
      await sleep(50 + Math.random() * 100);
    }

    let stopped = false;
    let timer: NodeJS.Timeout;
    const renew = async () => {
      const sent = performance.now();
      try {
        const n = await redis.eval(EXTEND, 1, key, token, TTL);
        if (n === 1 && performance.now() < until) until = sent + TTL - 300;
        else {
          stopped = true;
          until = 0;
        }
      } catch (err) {
        console.warn(`${key}: renewal failed`, err);
      }
      if (!stopped) timer = setTimeout(renew, TTL / 3);
    };
    timer = setTimeout(renew, TTL / 3);

    const lease: Lease = {
      check() {
        if (performance.now() >= until) throw new Error(`${key}: lease has run out`);
      },
    };
    try {
      return await held.run(new Map(outer).set(key, lease), () => fn(lease));
    } finally {
      stopped = true;
      clearTimeout(timer);
      await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn(`${key}: release failed`, err));
    }
  };
}

export interface Crm {
  load(id: string): Promise<{ id: string; orders: string[]; tags: string[] }>;
  save(c: { id: string; orders: string[]; tags: string[] }): Promise<void>;
  suggestTags(orders: string[]): Promise<string[]>;
}

export function createMergeService(withCustomer: ReturnType<typeof createCustomerLock>, crm: Crm) {
  async function retag(id: string): Promise<void> {
    await withCustomer(id, async (lease) => {
      const c = await crm.load(id);
      const tags = await crm.suggestTags(c.orders);
      lease.check();
      await crm.save({ ...c, tags });
    });
  }

  async function merge(into: string, orders: string[]): Promise<void> {
    await withCustomer(into, async (lease) => {
      const c = await crm.load(into);
      lease.check();
      await crm.save({ ...c, orders: [...new Set([...c.orders, ...orders])] });
      // tags are nice to have, the caller need not wait for them
      retag(into).catch((err) => console.warn(`retag ${into}`, err));
    });
  }

  return { merge, retag };
}
