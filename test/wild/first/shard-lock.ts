import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

const DEL = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const NODE_TIMEOUT = 3_000;

export interface ShardLock {
  id: string;
  shard: string;
  remaining: () => number;
}

const answerOf = <T>(reply: Promise<T>): Promise<T | undefined> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, NODE_TIMEOUT, undefined);
    reply.then(resolve, () => resolve(undefined)).finally(() => clearTimeout(timer));
  });

export const makeShardLocker = (masters: Redis[]) => {
  const majority = Math.floor(masters.length / 2) + 1;

  const release = async ({ shard, id }: Pick<ShardLock, 'shard' | 'id'>): Promise<void> => {
    await Promise.all(masters.map((master) => answerOf(master.eval(DEL, 1, `shard:${shard}`, id))));
  };

  const acquire = async (shard: string, ttlMs: number): Promise<ShardLock | null> => {
    const id = randomBytes(16).toString('base64url');
    const answers = await Promise.all(
      masters.map((master) => answerOf(master.set(`shard:${shard}`, id, 'PX', ttlMs, 'NX'))),
    );
    const lockedAt = performance.now();
    const drift = Math.ceil(ttlMs / 100) + 2;
    const remaining = () => lockedAt + ttlMs - drift - performance.now();
    if (answers.filter((answer) => answer === 'OK').length >= majority) return { id, shard, remaining };
    await release({ shard, id });
    return null;
  };

  return { acquire, release };
};
