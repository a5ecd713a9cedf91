import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COUNTER_KEYS } from '../../core/index.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { compareFencingTokens, type FencingToken, type LockError, Redlock } from './index.js';

/** Generous, so that a busy machine is not taken for a silent node. */
const PATIENT = { fencing: true, nodeTimeoutMs: 2_000, retryCount: 2 };

describe.skipIf(!canRunOnRedis('fencing tokens on three real nodes'))('fencing tokens on three real nodes', () => {
  let nodes: Provision;
  let clients: Redis[];
  let redlock: Redlock;

  beforeAll(async () => {
    nodes = await provision({ nodes: 3 });
    clients = nodes.nodes.map((node) => node.client());
    redlock = new Redlock(clients, PATIENT);
  });
  afterAll(async () => {
    await redlock?.quit();
    await nodes?.stop();
  });

  const [counter, joining] = COUNTER_KEYS;
  const counterOf = async (node: number): Promise<number> =>
    Number.parseInt((await clients[node]?.get(counter)) ?? '', 10);
  const counters = () => Promise.all(clients.map((_, node) => counterOf(node)));

  /** The token of a lock that is taken and released. */
  async function next(resource = 'a'): Promise<FencingToken> {
    await using lock = await redlock.acquire(resource, 20_000);
    if (lock.fencingToken === null) throw new Error('there is no token');
    return lock.fencingToken;
  }

  test('are not made up on new nodes: somebody has to say that they are new', async () => {
    const failure = await redlock.acquire('a', 20_000, { retryCount: -1 }).catch((error: LockError) => error);
    expect(failure).toMatchObject({ code: 'ERR_LOCK_COUNTERS_LOST', votes: { granted: [], refused: { length: 2 } } });
    await redlock.recoverFencing(0);
  });

  test('begin on all nodes, and rise from lock to lock, whatever the resource', async () => {
    const tokens = [await next(), await next(), await next('b')];
    expect(tokens.map((token) => token.counter)).toEqual([1, 2, 3]);
    expect(new Set(tokens.map(({ attempt }) => attempt)).size).toBe(3);
    const ordered = tokens.toReversed().sort(compareFencingTokens);
    expect(ordered).toEqual(tokens);
    expect(await clients[0]?.ttl(counter)).toBe(-1);
    expect(await clients[0]?.exists(joining)).toBe(0);
  });

  test('are restored on a node that has lost its counter, above those of the others', async () => {
    const before = await next();
    await clients[1]?.flushall();
    const after = await next();
    expect(after.counter).toBe(before.counter + 1);
    // By one lock, whether or not it has heard from a quorum before it hears from this node.
    await expect.poll(async () => (await counters())[1], { timeout: 20_000 }).toBeGreaterThan(2 ** 20);
    expect((await next()).counter).toBeGreaterThan(after.counter);
  });

  test.each(['-5', 'garbage', '3'])(
    'do not go by a counter that nobody has counted, as if it were none: %s',
    async (text) => {
      const before = await next();
      await clients[2]?.set(counter, text);
      const after = await next();
      expect(after.counter).toBeGreaterThan(before.counter);
      await expect.poll(async () => (await counters())[2], { timeout: 20_000 }).toBeGreaterThan(after.counter);
    },
  );

  test('are had as long as a quorum has counters of the right kind, and else there is an error', async () => {
    await Promise.all([1, 2].map((node) => clients[node]?.del(counter)));
    await Promise.all([1, 2].map((node) => clients[node]?.lpush(counter, 'x')));
    const failure = await redlock.acquire('a', 20_000, { retryCount: 0 }).catch((error: LockError) => error);
    expect(failure).toMatchObject({
      code: 'ERR_LOCK_QUORUM_UNREACHABLE',
      message: expect.stringMatching(/^No quorum told its fencing counter for a in 1 attempt\. The votes: /),
    });
    expect(String((failure as LockError).cause)).toContain('WRONGTYPE');
    await Promise.all([1, 2].map((node) => clients[node]?.del(counter)));
  });

  test('are not made up where fewer than a quorum know theirs, until the greatest is told', async () => {
    const failure = await redlock.acquire('a', 20_000, { retryCount: -1 }).catch((error: LockError) => error);
    expect(failure).toMatchObject({ code: 'ERR_LOCK_COUNTERS_LOST' });
    expect((failure as LockError).message).toContain('recoverFencing');
    await using plain = await redlock.acquire('a', 20_000, { fencing: false });
    expect(plain.fencingToken).toBe(null);
    await plain.release();
    const greatest = Math.max(...(await counters()).filter((it) => it > 0));
    await expect(redlock.recoverFencing(greatest - 1)).rejects.toThrow(`n0 has the fencing counter ${greatest}`);
    await expect(redlock.recoverFencing(-1)).rejects.toMatchObject({ code: 'ERR_LOCK_CONFIG' });
    await redlock.recoverFencing(greatest);
    expect((await next()).counter).toBeGreaterThan(greatest);
  });

  test.each(COUNTER_KEYS)('are not locked away: %s is no resource', async (resource) => {
    await expect(redlock.acquire(['b', resource], 20_000)).rejects.toMatchObject({ code: 'ERR_LOCK_CONFIG' });
  });

  test('are asked for with true or false', async () => {
    const wrong = { fencing: 'max' } as unknown as { fencing: boolean };
    expect(() => new Redlock(clients, wrong)).toThrow('fencing is "max", but it must be true or false.');
  });
});

describe.skipIf(!canRunOnRedis('fencing tokens and an older dump'))('fencing tokens of nodes with dumps', () => {
  test('do not go back, though a node comes back with an older counter, one is away and one hangs', async () => {
    await using nodes = await provision({ nodes: 5, sources: ['processes', 'package'], persistence: 'rdb' });
    const [old, away, hung, ...others] = nodes.nodes;
    const clients = nodes.nodes.map((node) => node.client());
    await using redlock = new Redlock(clients, { ...PATIENT, nodeTimeoutMs: 500 });
    await redlock.recoverFencing(0);
    const next = async (): Promise<number> => {
      await using lock = await redlock.acquire('a', 20_000);
      return lock.fencingToken?.counter ?? 0;
    };
    expect(await next()).toBe(1);
    await clients[0]?.save();
    // Two of five never hear of what follows.
    for (const node of others) await node.pause();
    for (let counter = 2; counter <= 9; counter++) expect(await next()).toBe(counter);
    await away?.kill();
    await old?.kill();
    await old?.restart({ keepData: true });
    for (const node of others) await node.resume();
    await hung?.pause();
    // The two that know an old counter and the one that knows it is not its own: no quorum knows.
    const failure = await redlock.acquire('a', 20_000).catch((error: LockError) => error);
    expect(failure).toMatchObject({ code: 'ERR_LOCK_QUORUM_UNREACHABLE' });
    await hung?.resume();
    await expect.poll(next, { timeout: 20_000 }).toBeGreaterThan(9);
  });
});
