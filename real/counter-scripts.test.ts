import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { COUNTER_KEYS, RECOVER_COUNTER, scriptsOf } from '../core/index.js';
import { lockPolicyOf, type Policy, policyWith, REFERENCE } from '../deviations/index.js';
import { type Provision, provision } from './provisioner/index.js';
import { canRunOnRedis } from './testing/can-run.js';

describe.skipIf(!canRunOnRedis('the scripts of fencing counters'))('the counter scripts on a real node', () => {
  let node: Provision;
  let redis: Redis;
  let policy: Policy = REFERENCE;

  beforeAll(async () => {
    node = await provision({ nodes: 1 });
    const [first] = node.nodes;
    if (first === undefined) throw new Error('there is no node');
    redis = first.client();
  });
  beforeEach(async () => {
    policy = REFERENCE;
    await redis.flushall();
  });
  afterAll(() => node?.stop());

  const [COUNTER, JOINING] = COUNTER_KEYS;

  type Counting = 'read-counter' | 'raise-counter' | 'join-counter';
  async function count(operation: Counting, token: string, value = 0, mark = 0): Promise<number> {
    const lua = scriptsOf(lockPolicyOf(policy).rules.scripts)[operation];
    return Number(await redis.eval(lua, COUNTER_KEYS.length, ...COUNTER_KEYS, token, value, mark));
  }

  /** What a node without a counter answers with. */
  async function absence(): Promise<number> {
    return -(await count('read-counter', 'mine'));
  }

  async function recover(value: number) {
    return redis.eval(RECOVER_COUNTER, COUNTER_KEYS.length, ...COUNTER_KEYS, value);
  }

  /** What this server calls itself. */
  async function life(): Promise<string> {
    const text = await redis.info();
    return `${/run_id:(\w+)/.exec(text)?.[1]}${/master_replid2:(\w+)/.exec(text)?.[1]}`;
  }

  it('read and raise, and never lower', async () => {
    await recover(4);
    expect(await count('read-counter', 'mine')).toBe(4);
    expect(await count('raise-counter', 'mine', 6)).toBe(6);
    expect(await count('raise-counter', 'mine', 5)).toBe(6);
    expect(await count('raise-counter', 'mine', 10)).toBe(10);
    expect(await redis.get(COUNTER)).toBe(`10 ${await life()}`);
    expect(await redis.ttl(COUNTER)).toBe(-1);
    expect(await redis.exists(JOINING)).toBe(0);
  });

  it('say no where there is no counter, and tell all the same mark', async () => {
    const mark = await absence();
    expect(mark).toBeGreaterThan(1.7e15);
    expect(await count('raise-counter', 'theirs', 5)).toBe(-mark);
    expect(await redis.get(JOINING)).toBe(`${mark} ${await life()}`);
    expect(await redis.exists(COUNTER)).toBe(0);
  });

  const another = '0123456789abcdef';
  it.each([
    ['of another process', `7 ${another}`],
    ['that is negative', '-5'],
    ['with no process', '7'],
    ['of no number', 'garbage'],
    ['that would not be exact', '1234567890123456'],
  ])('take a counter %s for none, until it is copied from others', async (_what, stored) => {
    const text = stored.length === 16 ? `${stored} ${await life()}` : stored;
    await redis.set(COUNTER, text);
    const mark = await absence();
    expect(await count('raise-counter', 'mine', 9)).toBe(-mark);
    expect(await redis.get(COUNTER)).toBe(text);
    expect(await count('join-counter', 'mine', 12, mark)).toBe(12);
    expect(await count('read-counter', 'mine')).toBe(12);
  });

  it('let a node join only with what was read since it lost its counter, and only once', async () => {
    const mark = await absence();
    expect(await count('join-counter', 'mine', 7, mark - 1)).toBe(-1);
    expect(await count('join-counter', 'mine', 8, mark)).toBe(8);
    expect(await count('join-counter', 'mine', 9, mark)).toBe(-1);
    expect(await redis.keys('*')).toEqual([COUNTER]);
    await redis.flushall();
    // A late copy of what found it without the first time marks another absence.
    expect(await absence()).not.toBe(mark);
    expect(await count('join-counter', 'mine', 9, mark)).toBe(-1);
  });

  it('let no node join that was found without in an earlier life', async () => {
    await redis.set(JOINING, `77 ${another}`);
    expect(await count('join-counter', 'mine', 9, 77)).toBe(-1);
  });

  it('count with what is left of a counter where the policy says so, and there is any', async () => {
    policy = policyWith({ deviations: ['counter-kept'] });
    expect(await absence()).toBeGreaterThan(0);
    await redis.set(COUNTER, `7 ${another}`);
    expect(await count('read-counter', 'mine')).toBe(7);
    expect(await count('raise-counter', 'mine', 9)).toBe(9);
  });

  it('count at once from 0 where the policy says so', async () => {
    policy = policyWith({ deviations: ['counter-from-zero'] });
    expect(await count('read-counter', 'mine')).toBe(0);
    expect(await count('raise-counter', 'mine', 5)).toBe(5);
    expect(await count('raise-counter', 'mine', 4)).toBe(5);
  });

  it('write whatever comes where the policy says so', async () => {
    policy = policyWith({ settings: { fencing: true }, deviations: ['counter-plainly-written'] });
    expect(await count('raise-counter', 'mine', 5)).toBe(5);
    expect(await count('raise-counter', 'mine', 4)).toBe(4);
  });

  it('recover a counter of any life, and never lower it', async () => {
    await redis.set(COUNTER, `7 ${another}`);
    await redis.set(JOINING, 'mine');
    expect(await recover(3)).toBe(7);
    expect(await redis.get(COUNTER)).toBe(`7 ${await life()}`);
    expect(await recover(8)).toBe(8);
    expect(await redis.keys('*')).toEqual([COUNTER]);
  });

  it('take the counter of a node for none whose data was replaced by those of its replica while it ran', async () => {
    await using other = await provision({ nodes: 1 });
    const [copy] = other.nodes;
    if (copy === undefined) throw new Error('there is no node');
    const replica = copy.client();
    const follow = async (who: Redis, url: string | undefined): Promise<void> => {
      const { hostname, port } = new URL(url ?? '');
      await who.replicaof(hostname, port);
      await expect.poll(() => who.info('replication'), { timeout: 20_000 }).toContain('master_link_status:up');
      await who.replicaof('NO', 'ONE');
    };
    await recover(5);
    await follow(replica, node.urls[0]);
    expect(await count('raise-counter', 'mine', 9)).toBe(9);
    await follow(redis, copy.url);
    expect(await redis.get(COUNTER)).toMatch(/^5 /);
    expect(await absence()).toBeGreaterThan(0);
  });
});
