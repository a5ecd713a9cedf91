import { randomUUID } from 'node:crypto';
import type { MakeLock } from 'lockstep/testing';

const wait = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));
const soon = (p: Promise<unknown>) => Promise.race([p.catch(() => undefined), wait(150)]);

export const make: MakeLock = ({ nodes }) => ({
  async acquire(key: string, ttl: number) {
    for (let i = 0; i < 5; i++) {
      const id = randomUUID();
      const end = performance.now() + ttl * 0.99 - 2;
      const unlock = async (n: (typeof nodes)[number]) => {
        if ((await n.get(key)) === id) await n.del(key);
      };
      const release = () => Promise.all(nodes.map((n) => soon(unlock(n))));
      const got = await Promise.all(nodes.map((n) => soon(n.set(key, id, 'PX', ttl, 'NX'))));
      if (got.filter((r) => r === 'OK').length > nodes.length / 2 && performance.now() < end) {
        return { remaining: () => end - performance.now(), release };
      }
      await release();
      await wait(50 + 150 * Math.random());
    }
    return null;
  },
});
