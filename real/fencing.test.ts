import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COUNTER_KEYS } from '../core/index.js';
import { compareFencingTokens, type FencingToken, type LockError, Redlock } from './index.js';
import { type Provision, provision } from './provisioner/index.js';
import { canRunOnRedis } from './testing/can-run.js';

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
  const counters = () => Promise.all(clients.map(async (client) => Number(await client.get(counter))));

  /** The token of a lock that is taken and given back. */
  async function next(resource = 'a'): Promise<FencingToken> {
    await using lock = await redlock.acquire(resource, 20_000);
    if (lock.fencingToken === null) throw new Error('there is no token');
    return lock.fencingToken;
  }

  test('begin with the first lock, on all nodes, and rise from lock to lock, whatever the resource', async () => {
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
    // By the first lock that hears from this node before it has heard from a quorum.
    const restored = async () => {
      await next();
      return (await counters())[1];
    };
    await expect.poll(restored, { timeout: 20_000 }).toBeGreaterThan(2 ** 20);
    expect((await next()).counter).toBeGreaterThan(after.counter);
  });

  test('are not made up where fewer than a quorum know theirs', async () => {
    const before = await next();
    await Promise.all([clients[0]?.flushall(), clients[1]?.flushall()]);
    const failure = await redlock.acquire('a', 20_000, { retryCount: 0 }).catch((error: LockError) => error);
    expect(failure).toMatchObject({ code: 'ERR_LOCK_QUORUM_UNREACHABLE' });
    expect((await counters())[2]).toBeGreaterThanOrEqual(before.counter);
    await using plain = await redlock.acquire('a', 20_000, { fencing: false });
    expect(plain.fencingToken).toBe(null);
  });

  test('are asked for with true or false', async () => {
    const wrong = { fencing: 'max' } as unknown as { fencing: boolean };
    expect(() => new Redlock(clients, wrong)).toThrow('fencing is "max", but it must be true or false.');
  });
});
