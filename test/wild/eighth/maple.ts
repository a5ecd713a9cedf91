import { randomUUID } from 'node:crypto';
import type { MakeLock } from 'lockstep/testing';

const LUA = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0`;
const wait = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));
const soon = (p: Promise<unknown>) => Promise.race([p.catch(() => undefined), wait(150)]);

export const make: MakeLock = ({ nodes }) => ({
  async acquire(key: string, ttl: number) {
    for (let i = 0; i < 5; i++) {
      const id = randomUUID();
      const end = performance.now() + ttl * 0.99 - 2;
      const release = () => Promise.all(nodes.map((n) => soon(n.eval(LUA, 1, key, id))));
      const got = await Promise.all(nodes.map((n) => soon(n.set(key, id, 'PX', ttl, 'NX'))));
      if (got.filter((r) => r === 'OK').length > nodes.length / 2 && performance.now() < end) {
        const lock = {
          isAcquired: true,
          async release() {
            lock.isAcquired = false;
            await release();
          },
        };
        return lock;
      }
      await release();
      await wait(50 + 150 * Math.random());
    }
    return null;
  },
});
