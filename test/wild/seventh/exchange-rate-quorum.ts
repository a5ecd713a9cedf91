import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const UNLOCK = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;

export class RateQuorum {
  private nodes: Redis[];

  constructor(urls: string[] = process.env.RATE_REDIS_URLS!.split(' ')) {
    // five independent masters
    this.nodes = urls.map((u) => new Redis(u, { maxRetriesPerRequest: 1, commandTimeout: 200 }));
    for (const n of this.nodes) n.on('error', () => undefined);
  }

  async withPair<T>(pair: string, ttl: number, fn: (left: () => number) => Promise<T>): Promise<T | null> {
    const key = `fx:${pair}`;
    const token = randomUUID();
    const start = performance.now();

    const answers = await Promise.allSettled(this.nodes.map((n) => n.set(key, token, 'PX', ttl, 'NX')));
    const up = answers.filter((a): a is PromiseFulfilledResult<'OK' | null> => a.status === 'fulfilled');
    const yes = up.filter((a) => a.value === 'OK').length;

    const until = start + ttl - (ttl * 0.01 + 2);
    const left = () => until - performance.now();

    try {
      // a node that is down has no say
      if (yes <= up.length / 2 || left() <= 0) return null;
      return await fn(left);
    } finally {
      await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, key, token)));
    }
  }
}

export async function refreshRate(q: RateQuorum, pair: string, feed: (p: string) => Promise<number>, put: (p: string, rate: number, maxMs: number) => Promise<void>) {
  return q.withPair(pair, 6_000, async (left) => {
    const rate = await feed(pair);
    if (left() < 1_500) throw new Error('too late to store');
    await put(pair, rate, 1_000);
    return rate;
  });
}
