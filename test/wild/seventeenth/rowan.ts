import { createHash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const sources = {
  extend: `
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('pexpire', KEYS[1], ARGV[2])`,
  release: `
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('del', KEYS[1])`,
};
type Name = keyof typeof sources;

const digests = Object.fromEntries(
  Object.entries(sources).map(([name, source]) => [name, createHash('sha1').update(source).digest('hex')]),
) as Record<Name, string>;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Runs a script by its digest. A node that does not know it yet (it is new, or was restarted) gets it loaded. */
async function call(node: Redis, name: Name, key: string, ...args: (string | number)[]): Promise<boolean> {
  try {
    return (await node.evalsha(digests[name], 1, key, ...args)) === 1;
  } catch (error) {
    if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw error;
    await node.script('LOAD', sources[name]);
    return false;
  }
}

interface Entry {
  key: string;
  token: string;
  ttl: number;
  end: number;
  closed: boolean;
  refused: Set<Redis>;
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;
  const usable = (ttl: number) => ttl - Math.ceil(ttl * 0.01) - 2;

  const broadcast = async (ms: number, send: (node: Redis) => Promise<boolean>): Promise<number> => {
    const results = await Promise.all(
      nodes.map(
        (node) =>
          new Promise<boolean>((resolve) => {
            const timer = setTimeout(() => resolve(false), ms);
            send(node)
              .then(resolve, () => resolve(false))
              .finally(() => clearTimeout(timer));
          }),
      ),
    );
    return results.filter(Boolean).length;
  };

  const release = async (entry: Entry): Promise<void> => {
    entry.closed = true;
    await broadcast(entry.ttl / 4, async (node) => {
      // Somebody else's key is there: nothing to remove.
      if (entry.refused.has(node)) return true;
      return call(node, 'release', entry.key, entry.token);
    });
  };

  const take = async (key: string, ttl: number): Promise<Entry | null> => {
    const entry: Entry = { key, token: randomUUID(), ttl, end: 0, closed: false, refused: new Set() };
    const start = performance.now();
    const votes = await broadcast(ttl / 4, async (node) => {
      const ok = (await node.set(key, entry.token, 'PX', ttl, 'NX')) === 'OK';
      if (!ok) entry.refused.add(node);
      else if (entry.closed) call(node, 'release', key, entry.token).catch(() => {});
      return ok;
    });
    entry.end = start + usable(ttl);
    if (votes >= quorum && performance.now() < entry.end) return entry;
    await release(entry);
    return null;
  };

  const extend = async (entry: Entry, ttl: number): Promise<boolean> => {
    // The second try is for nodes that had to load the script first.
    for (let tries = 0; tries < 2; tries++) {
      if (entry.closed || performance.now() >= entry.end) return false;
      const start = performance.now();
      const votes = await broadcast(ttl / 6, (node) => call(node, 'extend', entry.key, entry.token, ttl));
      if (votes >= quorum && !entry.closed && performance.now() < entry.end) {
        entry.end = start + usable(ttl);
        return true;
      }
    }
    return false;
  };

  return {
    async acquire(resource, ttlMs) {
      const until = performance.now() + 4 * ttlMs;
      while (performance.now() < until) {
        const entry = await take(resource, ttlMs);
        if (entry !== null)
          return {
            remaining: () => (entry.closed ? 0 : entry.end - performance.now()),
            extend: (ttl: number) => extend(entry, ttl),
            release: () => release(entry),
          };
        await sleep(ttlMs * (0.02 + Math.random() * 0.1));
      }
      return null;
    },
  };
};
