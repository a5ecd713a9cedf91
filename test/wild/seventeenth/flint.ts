import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function timed<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    return await Promise.race([
      work,
      new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('redis node did not answer')), ms);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

class Handle {
  private over = false;
  private end = 0;
  private readonly token = randomUUID();

  constructor(
    private readonly nodes: readonly Redis[],
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  async open(): Promise<boolean> {
    const t = performance.now();
    const results = await Promise.allSettled(
      this.nodes.map((node) =>
        timed(
          this.ttl / 4,
          node.set(this.key, this.token, 'PX', this.ttl, 'NX').then((reply) => {
            if (reply === 'OK' && this.over) node.eval(script, 1, this.key, this.token).catch(() => {});
            return reply === 'OK';
          }),
        ),
      ),
    );
    const votes = results.filter((result) => result.status === 'fulfilled' && result.value).length;
    this.end = t + this.ttl * 0.99 - 2;
    return votes > this.nodes.length / 2 && this.remaining() > 0;
  }

  remaining(): number {
    return this.over ? 0 : this.end - performance.now();
  }

  async release(): Promise<void> {
    this.over = true;
    for (const node of this.nodes) {
      await timed(this.ttl / 8, node.eval(script, 1, this.key, this.token));
    }
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const last = performance.now() + 3 * ttlMs;
    do {
      const handle = new Handle(nodes, resource, ttlMs);
      if (await handle.open()) return handle;
      await handle.release().catch(() => {});
      await sleep(ttlMs * (0.03 + 0.1 * Math.random()));
    } while (performance.now() < last);
    return null;
  },
});
