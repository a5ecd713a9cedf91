import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const DELETE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const majorityOf = (n: number) => Math.floor(n / 2) + 1;

/** Asks `electorate`; resolves to those in favour, as soon as they are a majority or cannot become one. */
function elect(electorate: Redis[], ask: (node: Redis) => Promise<boolean>, ms: number): Promise<Redis[] | null> {
  return new Promise((resolve) => {
    const inFavour: Redis[] = [];
    let against = 0;
    const needed = majorityOf(electorate.length);
    const timer = setTimeout(() => resolve(null), ms);
    const check = () => {
      const isWon = inFavour.length >= needed;
      if (!isWon && electorate.length - against >= needed) return;
      clearTimeout(timer);
      resolve(isWon ? [...inFavour] : null);
    };
    for (const node of electorate)
      ask(node)
        .catch(() => false)
        .then((yes) => {
          if (yes) inFavour.push(node);
          else against += 1;
          check();
        });
  });
}

class ElectedLock {
  private readonly token = randomUUID();
  private members: Redis[] = [];
  private until = 0;
  private over = false;

  constructor(
    private readonly nodes: Redis[],
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  async run(): Promise<boolean> {
    const start = performance.now();
    const winners = await elect(
      this.nodes,
      async (node) => {
        const ok = (await node.set(this.key, this.token, 'PX', this.ttl, 'NX')) === 'OK';
        if (ok && this.over) void this.clear(node);
        return ok;
      },
      this.ttl / 2,
    );
    this.until = start + this.ttl - Math.ceil(this.ttl / 100) - 2;
    if (winners === null || this.remaining() <= 0) return false;
    this.members = winners;
    return true;
  }

  remaining(): number {
    return this.over ? 0 : this.until - performance.now();
  }

  /** Only the nodes that have our key can extend it. */
  async extend(ttl: number): Promise<boolean> {
    if (this.remaining() <= 0) return false;
    const start = performance.now();
    const kept = await elect(
      this.members,
      async (node) => (await node.eval(EXTEND, 1, this.key, this.token, ttl)) === 1,
      ttl / 2,
    );
    if (kept === null || this.remaining() <= 0) return false;
    this.until = start + ttl - Math.ceil(ttl / 100) - 2;
    return true;
  }

  async release(): Promise<void> {
    this.over = true;
    await Promise.all(this.nodes.map((node) => this.clear(node)));
  }

  private async clear(node: Redis): Promise<void> {
    for (let tries = 0; tries < 3; tries++) {
      const cleared = node.eval(DELETE, 1, this.key, this.token).then(
        () => true,
        () => false,
      );
      if (await Promise.race([cleared, sleep(this.ttl / 8)])) return;
    }
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const end = performance.now() + 3 * ttlMs;
    do {
      const lock = new ElectedLock(nodes, resource, ttlMs);
      if (await lock.run()) return lock;
      await lock.release();
      await sleep(ttlMs * (0.03 + Math.random() * 0.1));
    } while (performance.now() < end);
    return null;
  },
});
