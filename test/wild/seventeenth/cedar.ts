import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const CAD = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const MAX_ATTEMPTS = 12;

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class Claim {
  readonly id = randomUUID();
  end = 0;
  over = false;

  constructor(
    private readonly nodes: Redis[],
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  async stake(): Promise<boolean> {
    const t0 = performance.now();
    const got = await this.all(this.ttl / 4, async (node) => {
      const ok = (await node.set(this.key, this.id, 'PX', this.ttl, 'NX')) === 'OK';
      if (ok && this.over) this.erase(node).catch(() => {});
      return ok;
    });
    this.end = t0 + this.ttl - this.ttl / 100 - 2;
    return got.filter(Boolean).length >= (this.nodes.length >> 1) + 1 && this.remaining() > 0;
  }

  remaining(): number {
    return this.over ? 0 : this.end - performance.now();
  }

  async release(): Promise<void> {
    this.over = true;
    const erased = await this.all(this.ttl / 6, (node) => this.erase(node));
    await Promise.all(this.nodes.map((node, i) => (erased[i] ? null : this.erase(node, this.ttl / 6).catch(() => {}))));
  }

  private erase(node: Redis, ms?: number): Promise<boolean> {
    const sent = node.eval(CAD, 1, this.key, this.id).then(() => true);
    return ms === undefined ? sent : Promise.race([sent, wait(ms).then(() => false)]);
  }

  private all(ms: number, call: (node: Redis) => Promise<boolean>): Promise<boolean[]> {
    return Promise.all(
      this.nodes.map(async (node) => {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const late = new Promise<boolean>((resolve) => {
          timer = setTimeout(() => resolve(false), ms);
        });
        try {
          return await Promise.race([call(node), late]);
        } catch {
          return false;
        } finally {
          clearTimeout(timer);
        }
      }),
    );
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    let claim: Claim | undefined;
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      if (claim) {
        // Take back what the last attempt got, then give the others a chance.
        await claim.release();
        await wait(ttlMs * (0.06 + Math.random() * 0.12));
      }
      claim = new Claim(nodes, resource, ttlMs);
      if (await claim.stake()) return claim;
    }
    return null;
  },
});
