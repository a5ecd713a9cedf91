import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const ROUNDS = 8;

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

async function soon<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const never = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined);
  });
  try {
    return await Promise.race([work, never]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** One bid for a lock. It goes to each node until the node has accepted it. */
class Bid {
  readonly token = randomUUID();
  readonly accepted = new Set<Redis>();
  closed = false;
  end = 0;

  constructor(
    readonly nodes: Redis[],
    readonly key: string,
    readonly ttl: number,
  ) {}

  async round(): Promise<boolean> {
    const start = performance.now();
    // Who has accepted need not be asked again.
    const missing = this.nodes.filter((node) => !this.accepted.has(node));
    await Promise.all(
      missing.map((node) =>
        soon(
          node.set(this.key, this.token, 'PX', this.ttl, 'NX').then((reply) => {
            if (reply !== 'OK') return;
            if (this.closed) void this.withdraw(node);
            else this.accepted.add(node);
          }),
          this.ttl / 5,
        ),
      ),
    );
    this.end = start + this.ttl - (this.ttl * 0.01 + 2);
    return this.accepted.size > this.nodes.length / 2 && this.remaining() > 0;
  }

  remaining(): number {
    return this.closed ? 0 : this.end - performance.now();
  }

  async release(): Promise<void> {
    this.closed = true;
    await Promise.all(this.nodes.map((node) => this.withdraw(node)));
  }

  private async withdraw(node: Redis): Promise<void> {
    for (let n = 0; n < 3; n++)
      if ((await soon(node.eval(UNLOCK, 1, this.key, this.token), this.ttl / 8)) !== undefined) return;
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const giveUp = performance.now() + 4 * ttlMs;
    while (performance.now() < giveUp) {
      const bid = new Bid(nodes, resource, ttlMs);
      for (let round = 0; round < ROUNDS; round++) {
        if (await bid.round()) return bid;
        await sleep(ttlMs * (0.05 + Math.random() * 0.1));
      }
      // Perhaps two bidders block each other. Make way, and start again.
      await bid.release();
      await sleep(ttlMs * Math.random() * 0.4);
    }
    return null;
  },
});
