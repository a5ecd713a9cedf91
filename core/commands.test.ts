import Redis from 'ioredis-mock';
import { beforeEach, describe, expect, it } from 'vitest';
import { lockPolicyOf, type Policy, policyWith, REFERENCE } from '../deviations/index.js';
import { scriptsOf } from './index.js';

/** The scripts run in a Lua interpreter over keys in memory; on real nodes they are tested with the adapter. */
const redis = new Redis();

async function run(operation: 'acquire' | 'extend' | 'release', token: string, ttlMs: number, ...keys: string[]) {
  return redis.eval(scriptsOf(lockPolicyOf(policy).rules.scripts)[operation], keys.length, ...keys, token, ttlMs);
}

let policy: Policy = REFERENCE;

beforeEach(async () => {
  policy = REFERENCE;
  await redis.flushall();
});

async function held(...keys: string[]): Promise<void> {
  expect(await run('acquire', 'mine', 10_000, ...keys)).toBe(1);
}

describe('the acquire script', () => {
  it('sets every key to the token with the TTL in milliseconds', async () => {
    await held('a', 'b');
    for (const key of ['a', 'b']) {
      expect(await redis.get(key)).toBe('mine');
      expect(await redis.pttl(key)).toBeGreaterThan(9_000);
      expect(await redis.pttl(key)).toBeLessThanOrEqual(10_000);
    }
  });

  it.each([['a'], ['b']])('sets no key where one of them (%s) is taken', async (taken) => {
    await redis.set(taken, 'theirs');
    expect(await run('acquire', 'mine', 10_000, 'a', 'b')).toBe(0);
    expect(await redis.keys('*')).toEqual([taken]);
    expect(await redis.get(taken)).toBe('theirs');
  });

  it('refuses its own token too, so that a duplicate does not lengthen anything', async () => {
    await held('a');
    expect(await run('acquire', 'mine', 90_000, 'a')).toBe(0);
    expect(await redis.pttl('a')).toBeLessThanOrEqual(10_000);
  });

  it('counts its own token, without lengthening it, under the policy that says so', async () => {
    policy = policyWith({ deviations: ['own-key-grants'] });
    await held('a');
    expect(await run('acquire', 'mine', 90_000, 'a', 'b')).toBe(1);
    expect(await redis.pttl('a')).toBeLessThanOrEqual(10_000);
    expect(await redis.pttl('b')).toBeGreaterThan(80_000);
    expect(await run('acquire', 'theirs', 90_000, 'a')).toBe(0);
    expect(await run('acquire', 'theirs', 90_000, 'c', 'b')).toBe(0);
    expect(await redis.exists('c')).toBe(0);
  });

  it('takes keys from others under the policy that does not ask for absence', async () => {
    policy = policyWith({ deviations: ['sets-any'] });
    await redis.set('b', 'theirs');
    await held('a', 'b');
    expect(await redis.mget('a', 'b')).toEqual(['mine', 'mine']);
  });
});

describe('the extend script', () => {
  it('lengthens every key', async () => {
    await held('a', 'b');
    expect(await run('extend', 'mine', 50_000, 'a', 'b')).toBe(1);
    expect(await redis.pttl('a')).toBeGreaterThan(49_000);
    expect(await redis.pttl('b')).toBeGreaterThan(49_000);
  });

  it('never shortens a key, and says yes all the same', async () => {
    await held('a');
    expect(await run('extend', 'mine', 1_000, 'a')).toBe(1);
    expect(await redis.pttl('a')).toBeGreaterThan(9_000);
  });

  it('gives an expiry to an own key that has none', async () => {
    await redis.set('a', 'mine');
    expect(await run('extend', 'mine', 1_000, 'a')).toBe(1);
    expect(await redis.pttl('a')).toBeGreaterThan(0);
  });

  it.each([['a'], ['b']])('touches no key where one of them (%s) is another one’s or missing', async (lost) => {
    await held('a', 'b');
    const kept = lost === 'a' ? 'b' : 'a';
    await redis.set(lost, 'theirs', 'PX', 7_000);
    expect(await run('extend', 'mine', 50_000, 'a', 'b')).toBe(0);
    await redis.del(lost);
    expect(await run('extend', 'mine', 50_000, 'a', 'b')).toBe(0);
    expect(await redis.exists(lost)).toBe(0);
    expect(await redis.pttl(kept)).toBeLessThanOrEqual(10_000);
  });

  it('re-creates missing keys, but takes none from others, under the policy that says so', async () => {
    policy = policyWith({ deviations: ['extends-missing'] });
    await held('a');
    expect(await run('extend', 'mine', 50_000, 'a', 'b')).toBe(1);
    expect(await redis.mget('a', 'b')).toEqual(['mine', 'mine']);
    await redis.set('b', 'theirs');
    expect(await run('extend', 'mine', 90_000, 'a', 'b')).toBe(0);
    expect(await redis.pttl('a')).toBeLessThanOrEqual(50_000);
  });

  it('gives any key that is there a new expiry, its token left alone, under the policy that says so', async () => {
    policy = policyWith({ deviations: ['extends-present'] });
    await redis.set('a', 'theirs', 'PX', 90_000);
    expect(await run('extend', 'mine', 50_000, 'a', 'b')).toBe(0);
    expect(await redis.pttl('a')).toBeGreaterThan(80_000);
    expect(await run('extend', 'mine', 50_000, 'a')).toBe(1);
    expect(await redis.get('a')).toBe('theirs');
    expect(await redis.pttl('a')).toBeLessThanOrEqual(50_000);
  });

  it('takes any key under the policy that says so', async () => {
    policy = policyWith({ deviations: ['extends-any'] });
    await redis.set('a', 'theirs');
    expect(await run('extend', 'mine', 50_000, 'a', 'b')).toBe(1);
    expect(await redis.mget('a', 'b')).toEqual(['mine', 'mine']);
  });
});

describe('the release script', () => {
  it('deletes every key, and has nothing to delete the second time', async () => {
    await held('a', 'b');
    expect(await run('release', 'mine', 0, 'a', 'b')).toBe(1);
    expect(await redis.keys('*')).toEqual([]);
    expect(await run('release', 'mine', 0, 'a', 'b')).toBe(0);
  });

  it('deletes what is left of its own where it owns only a part, and nothing of others', async () => {
    await held('a', 'b', 'c');
    await redis.del('a');
    await redis.set('b', 'theirs');
    expect(await run('release', 'mine', 0, 'a', 'b', 'c')).toBe(1);
    expect(await redis.mget('a', 'b', 'c')).toEqual([null, 'theirs', null]);
    expect(await run('release', 'mine', 0, 'a', 'b', 'c')).toBe(0);
  });

  it('deletes whatever is there under the policy that does not check', async () => {
    policy = policyWith({ deviations: ['deletes-any'] });
    await redis.set('b', 'theirs');
    expect(await run('release', 'mine', 0, 'a', 'b')).toBe(1);
    expect(await redis.exists('b')).toBe(0);
    expect(await run('release', 'mine', 0, 'a', 'b')).toBe(0);
  });
});
