import { describe, expect, it } from 'vitest';
import { idsOfModule as idsOf } from './testing/audited.js';

/** A transfer between two accounts, whose locks are taken in this order, and waited for so often. */
const transfer = (order: string, tries: number): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis();
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function locked(id, work) {
  const [key, token] = ['account:' + id, randomUUID()];
  for (let i = 0; ; i++) {
    if ((await redis.set(key, token, 'PX', 20000, 'NX')) === 'OK') break;
    if (i >= ${tries}) throw new Error('busy');
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50));
  }
  try {
    return await work();
  } finally {
    await redis.eval(UNLOCK, 1, key, token);
  }
}
export async function transfer(bank, fromId, toId, cents) {
  if (fromId === toId) throw new Error('the same account');
  const [first, second] = ${order};
  return locked(first, () => locked(second, () => bank.move(fromId, toId, cents)));
}`;

describe('a function that takes the locks of two of its arguments', () => {
  it('may not take them in the order of its call', async () => {
    await expect(idsOf(transfer('[fromId, toId]', 60))).resolves.toEqual(['locks-as-called']);
    await expect(idsOf(transfer('[fromId, toId].sort((a, b) => a - b)', 60))).resolves.toEqual(['locks-as-called']);
  });

  it('may take them in an order of their own', async () => {
    await expect(idsOf(transfer('[fromId, toId].sort()', 60))).resolves.toEqual([]);
  });

  it('may take them as they come where it does not wait', async () => {
    await expect(idsOf(transfer('[fromId, toId]', 0))).resolves.toEqual([]);
  });
});

/** Takes the locks of several bins, and does this where one is refused. */
const bins = (refused: string): string => `import { randomUUID } from 'node:crypto';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function lockBins(redis, names) {
  const locks = [];
  try {
    for (const name of [...new Set(names)].sort()) {
      const lock = { key: 'bin:' + name, token: randomUUID() };
      if ((await redis.set(lock.key, lock.token, 'PX', 20000, 'NX')) !== 'OK') throw new Error(name + ' is busy');
      locks.push(lock);
    }
    return locks;
  } catch (error) {
    ${refused}
    throw error;
  }
}
export async function unlockBins(redis, locks) {
  await Promise.all(locks.map(({ key, token }) => redis.eval(UNLOCK, 1, key, token)));
}`;

it('finds locks that are kept where one of several is refused', async () => {
  await expect(idsOf(bins(''))).resolves.toEqual(['leaves-key']);
  await expect(idsOf(bins('await unlockBins(redis, locks);'))).resolves.toEqual([]);
});
