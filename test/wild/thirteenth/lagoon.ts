import { createHash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const sources = {
  del: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  extend: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
};
const hashes = {
  del: createHash('sha1').update(sources.del).digest('hex'),
  extend: createHash('sha1').update(sources.extend).digest('hex'),
};

async function script(node: Redis, name: keyof typeof sources, key: string, ...args: (string | number)[]): Promise<unknown> {
  try {
    return await node.evalsha(hashes[name], 1, key, ...args);
  } catch (error) {
    if (String(error).includes('NOSCRIPT')) return node.eval(sources[name], 1, key, ...args);
    throw error;
  }
}

/** null: no answer */
function orNull(command: Promise<unknown>, ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms);
  });
  return Promise.race([command.catch(() => null), late]).finally(() => clearTimeout(timer));
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;
  const all = (ms: number, send: (node: Redis) => Promise<unknown>) =>
    Promise.all(nodes.map((node) => orNull(send(node), Math.max(20, ms))));
  const endOf = (ttl: number) => performance.now() + ttl - ttl * 0.01 - 2;

  function handle(key: string, token: string, first: number) {
    let end = first;
    let released = false;
    let extending: Promise<unknown> = Promise.resolve();

    async function extendOnce(ttl: number): Promise<void> {
      if (released) throw new Error('released');
      const next = endOf(ttl);
      end = Math.min(end, next);
      const answers = await all(ttl / 5, (node) => script(node, 'extend', key, token, ttl));
      const extended = answers.filter((answer) => answer !== null).length;
      if (extended < quorum) throw new Error(`extended on ${extended} of ${nodes.length} nodes`);
      end = next;
    }

    return {
      remaining: () => (released ? 0 : Math.max(0, end - performance.now())),
      extend(ttl: number): Promise<void> {
        const mine = extending.then(() => extendOnce(ttl));
        extending = mine.catch(() => {});
        return mine;
      },
      async release(): Promise<void> {
        released = true;
        await all(500, (node) => script(node, 'del', key, token));
      },
    };
  }

  return {
    async acquire(resource, ttl) {
      for (let i = 0; i < 5; i++) {
        const token = randomUUID();
        const end = endOf(ttl);
        const answers = await all(ttl / 5, (node) => node.set(resource, token, 'PX', ttl, 'NX'));
        const votes = answers.filter((answer) => answer === 'OK').length;
        if (votes >= quorum && performance.now() < end) return handle(resource, token, end);
        await all(ttl / 5, (node) => script(node, 'del', resource, token));
        await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 100));
      }
      return null;
    },
  };
};
