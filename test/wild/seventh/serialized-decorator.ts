import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

export class Lease {
  constructor(private readonly since: number, private readonly ttl: number) {}
  /** throws unless `ms` of the lease are left */
  demand(ms: number) {
    if (this.since + this.ttl - performance.now() < ms) throw new Error('lease too short');
  }
}

/** @Serialized((id) => `x:${id}`) — the method gets a Lease as its last argument */
export function Serialized(key: (...args: any[]) => string, ttl = 20_000) {
  return function (_target: object, name: string, desc: PropertyDescriptor) {
    const method = desc.value as (...a: any[]) => Promise<unknown>;

    desc.value = async function (this: unknown, ...args: any[]) {
      const k = key(...args);
      const token = randomUUID();
      const since = performance.now();
      const ok = await redis.set(k, token, 'PX', ttl, 'NX');
      if (ok !== 'OK') throw new Error(`${name}: ${k} is locked`);
      try {
        return method.apply(this, [...args, new Lease(since, ttl)]);
      } finally {
        await redis.eval(UNLOCK, 1, k, token);
      }
    };
    return desc;
  };
}

export class GymMemberships {
  constructor(private readonly repo: { get(id: string): Promise<{ visits: number }>; put(id: string, visits: number, timeoutMs: number): Promise<void> }) {}

  @Serialized((id: string) => `gym:member:${id}`)
  async punch(id: string, lease?: Lease): Promise<number> {
    const card = await this.repo.get(id);
    if (card.visits <= 0) throw new Error('no visits left');
    lease!.demand(4_000);
    await this.repo.put(id, card.visits - 1, 2_000);
    return card.visits - 1;
  }
}
