import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0`;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
return 0`;

type Reply = 'yes' | 'no' | 'silent';

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const leeway = (ttl: number) => Math.ceil(ttl * 0.01) + 2;

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;

  function askAll(ms: number, command: (node: Redis) => Promise<boolean>): Promise<Reply[]> {
    return Promise.all(
      nodes.map(
        (node) =>
          new Promise<Reply>((resolve) => {
            const timer = setTimeout(() => resolve('silent'), ms);
            command(node)
              .then(
                (yes) => resolve(yes ? 'yes' : 'no'),
                () => resolve('silent'),
              )
              .finally(() => clearTimeout(timer));
          }),
      ),
    );
  }
  const count = (replies: Reply[], what: Reply) => replies.filter((reply) => reply === what).length;

  class Lease {
    #token = randomBytes(12).toString('hex');
    #end = 0;
    #closed = false;

    constructor(
      readonly key: string,
      readonly ttl: number,
    ) {}

    async obtain(): Promise<boolean> {
      const start = performance.now();
      const replies = await askAll(this.ttl / 4, async (node) => {
        const ok = (await node.set(this.key, this.#token, 'PX', this.ttl, 'NX')) === 'OK';
        if (ok && this.#closed) this.#free(node).catch(() => {});
        return ok;
      });
      this.#end = start + this.ttl - leeway(this.ttl);
      return count(replies, 'yes') >= quorum && this.remaining() > 0;
    }

    remaining(): number {
      return this.#closed ? 0 : this.#end - performance.now();
    }

    async extend(ttl: number): Promise<boolean> {
      if (this.remaining() <= 0) return false;
      const start = performance.now();
      const replies = await askAll(
        ttl / 4,
        async (node) => (await node.eval(EXTEND, 1, this.key, this.#token, ttl)) === 1,
      );
      // The lock is lost when a majority does not know it any more.
      if (count(replies, 'no') >= quorum || this.remaining() <= 0) {
        this.#end = 0;
        return false;
      }
      this.#end = start + ttl - leeway(ttl);
      return true;
    }

    async release(): Promise<void> {
      this.#closed = true;
      const replies = await askAll(this.ttl / 6, (node) => this.#free(node));
      if (count(replies, 'silent') > 0) await askAll(this.ttl / 6, (node) => this.#free(node));
    }

    async #free(node: Redis): Promise<boolean> {
      return (await node.eval(RELEASE, 1, this.key, this.#token)) === 1;
    }
  }

  return {
    async acquire(resource, ttlMs) {
      const patience = performance.now() + ttlMs * 3;
      for (;;) {
        const lease = new Lease(`lease:${resource}`, ttlMs);
        if (await lease.obtain()) return lease;
        await lease.release();
        if (performance.now() >= patience) return null;
        await sleep(ttlMs * (0.02 + Math.random() * 0.1));
      }
    },
  };
};
