import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// One slot per resource, as a hash: { holder, since }.

const OCCUPY = `
if redis.call('hexists', KEYS[1], 'holder') == 1 then
  return 0
end
redis.call('hset', KEYS[1], 'holder', ARGV[1])
redis.call('hset', KEYS[1], 'since', ARGV[3])
redis.call('expire', KEYS[1], ARGV[2])
return 1
`;

const PROLONG = `
if redis.call('hget', KEYS[1], 'holder') == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const VACATE = `
if redis.call('hget', KEYS[1], 'holder') == ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
return 0
`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class Slot {
  private readonly holder = randomUUID();
  private end = 0;
  private vacated = false;

  constructor(
    private readonly nodes: Redis[],
    private readonly key: string,
    private readonly ttlMs: number,
  ) {}

  async occupy(): Promise<boolean> {
    const start = performance.now();
    const votes = await this.votes(async (node) => {
      const vote = await node.eval(OCCUPY, 1, this.key, this.holder, this.ttlMs, Date.now());
      if (vote === 1 && this.vacated) node.eval(VACATE, 1, this.key, this.holder).catch(() => {});
      return vote === 1;
    });
    this.end = start + this.ttlMs - this.ttlMs / 100 - 2;
    return votes >= this.quorum && this.isHeld();
  }

  isHeld(): boolean {
    return !this.vacated && performance.now() < this.end;
  }

  async extend(ttlMs: number): Promise<boolean> {
    if (!this.isHeld()) return false;
    const start = performance.now();
    const votes = await this.votes(async (node) => (await node.eval(PROLONG, 1, this.key, this.holder, ttlMs)) === 1);
    if (votes < this.quorum || !this.isHeld()) return false;
    this.end = start + ttlMs - ttlMs / 100 - 2;
    return true;
  }

  async release(): Promise<void> {
    this.vacated = true;
    for (let tries = 0; tries < 2; tries++) {
      const told = await this.votes(async (node) => {
        await node.eval(VACATE, 1, this.key, this.holder);
        return true;
      });
      if (told === this.nodes.length) return;
    }
  }

  private get quorum(): number {
    return Math.floor(this.nodes.length / 2) + 1;
  }

  private async votes(ask: (node: Redis) => Promise<boolean>): Promise<number> {
    const answers = await Promise.all(
      this.nodes.map(
        (node) =>
          new Promise<boolean>((resolve) => {
            const timer = setTimeout(resolve, this.ttlMs / 5, false);
            ask(node)
              .then(resolve, () => resolve(false))
              .finally(() => clearTimeout(timer));
          }),
      ),
    );
    return answers.filter(Boolean).length;
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const until = performance.now() + 3 * ttlMs;
    do {
      const slot = new Slot(nodes, `slot:${resource}`, ttlMs);
      if (await slot.occupy()) return slot;
      await slot.release();
      await sleep(ttlMs * (0.03 + Math.random() * 0.1));
    } while (performance.now() < until);
    return null;
  },
});
