import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const DEL_IF_MINE = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end`;
const PATIENCE = 150;

type Held = { remaining(): number; release(): Promise<void> };

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;

  const forget = (node: Redis, key: string, token: string) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, PATIENCE);
      const done = () => {
        clearTimeout(timer);
        resolve();
      };
      node.eval(DEL_IF_MINE, 1, key, token).then(done, done);
    });

  const forgetAll = async (key: string, token: string) => {
    await Promise.all(nodes.map((node) => forget(node, key, token)));
  };

  const attempt = (key: string, ttl: number) =>
    new Promise<Held | undefined>((resolve) => {
      const token = randomBytes(16).toString('base64url');
      const t0 = performance.now();
      const deadline = t0 + ttl;
      let yes = 0;
      let no = 0;
      let decided = false;
      let closed = false;

      const close = () => {
        closed = true;
        return forgetAll(key, token);
      };

      const count = (granted: boolean) => {
        if (granted) yes++;
        else no++;
        if (decided) return;
        if (yes >= quorum) {
          decided = true;
          if (performance.now() < deadline) {
            resolve({ remaining: () => (closed ? 0 : deadline - performance.now()), release: close });
          } else {
            close().then(() => resolve(undefined));
          }
        } else if (no > nodes.length - quorum) {
          decided = true;
          close().then(() => resolve(undefined));
        }
      };

      for (const node of nodes) {
        let counted = false;
        const vote = (granted: boolean) => {
          if (counted) return;
          counted = true;
          clearTimeout(timer);
          count(granted);
        };
        const timer = setTimeout(vote, PATIENCE, false);
        node.set(key, token, 'PX', ttl, 'NX').then(
          (reply) => {
            if (reply === 'OK' && closed) void forget(node, key, token);
            vote(reply === 'OK');
          },
          () => vote(false),
        );
      }
    });

  return {
    async acquire(key: string, ttl: number) {
      for (let left = 5; left > 0; left--) {
        const held = await attempt(key, ttl);
        if (held) return held;
        if (left > 1) await new Promise((next) => setTimeout(next, 50 + Math.random() * 200));
      }
      return undefined;
    },
  };
};
