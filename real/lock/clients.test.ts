import { createRequire } from 'node:module';
import { Cluster, type Redis } from 'ioredis';
import type { AnyClient } from 'lockstep-redlock';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COUNTER_KEYS } from '../../core/index.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { CLIENT_KINDS, type MadeClient } from '../testing/client-kinds.js';
import { untilVoters } from '../testing/voters.js';
import { clusterOf } from '../testing/wrapped-servers.js';
import { Redlock, type RedlockSettings } from './index.js';

/** All votes are looked at, also on a busy machine. */
const PATIENT: RedlockSettings = { retryCount: 0, nodeTimeoutMs: 2000 };

const prefix = `lockstep:clients:${process.pid}`;
let taken = 0;
const fresh = (): string => `${prefix}:${taken++}`;

test('both majors of ioredis and of node-redis are here', () => {
  const require = createRequire(import.meta.url);
  const majors = ['ioredis', 'ioredis6', 'redis5', 'redis'].map((name) => {
    const { version }: { version: string } = require(`${name}/package.json`);
    return version.split('.')[0];
  });
  expect(majors).toEqual(['5', '6', '5', '6']);
});

describe.skipIf(!canRunOnRedis('clients of each kind', 'processes'))('with clients of', () => {
  let nodes: Provision;
  let servers: Redis[];
  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
    servers = nodes.nodes.map((node) => node.client());
  });
  afterAll(() => nodes?.stop());

  describe.each(CLIENT_KINDS)('%s', (_, make) => {
    let made: MadeClient[];
    let clients: AnyClient[];
    beforeAll(async () => {
      made = await Promise.all(nodes.urls.map(make));
      clients = made.map(({ client }) => client);
    });
    afterAll(() => {
      for (const { close } of made ?? []) close();
    });

    test('locks are acquired, extended, looked at and released, on one key or several', async () => {
      await using redlock = new Redlock(clients, PATIENT);
      for (const resources of [[fresh()], [fresh(), fresh()]]) {
        const [first = ''] = resources;
        const lock = await redlock.acquire(resources, 5000, { votesWanted: 'all' });
        expect(await redlock.tryAcquire(resources, 5000)).toBeNull();
        await lock.extend(9000);
        const seen = await redlock.inspect(first);
        expect(seen).toMatchObject({ state: 'held', value: lock.value, other: [], empty: [] });
        expect(seen.remainingMs).toBeGreaterThan(5000);
        expect(seen.remainingMs).toBeLessThanOrEqual(9000);
        expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
        await expect.poll(() => redlock.inspect(first)).toMatchObject({ state: 'free', value: null, remainingMs: 0 });
      }
    });

    test('a lost script cache is no obstacle', async () => {
      await using redlock = new Redlock(clients, PATIENT);
      const lock = await redlock.acquire(fresh(), 5000, { votesWanted: 'all' });
      await Promise.all(servers.map((server) => server.script('FLUSH')));
      await lock.extend(6000);
      expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
    });

    test('dead and stopped nodes are not waited for, and vote again when they are back', async () => {
      await using redlock = new Redlock(clients, PATIENT);
      await (await redlock.acquire(fresh(), 5000, { votesWanted: 'all' })).release();
      await Promise.all([nodes.nodes[0]?.kill(), nodes.nodes[1]?.pause()]);
      const from = performance.now();
      for (let i = 0; i < 5; i++) await (await redlock.acquire(fresh(), 5000)).release();
      expect(performance.now() - from).toBeLessThan(500);
      await Promise.all([nodes.nodes[0]?.restart({ keepData: false }), nodes.nodes[1]?.resume()]);
      await untilVoters(redlock, 5);
    });
  });
});

describe.skipIf(!canRunOnRedis('clients with a key prefix'))('clients with a key prefix', () => {
  test('of all libraries that have one lock the same keys', async () => {
    await using nodes = await provision({ nodes: 1 });
    const [url = ''] = nodes.urls;
    const server = nodes.nodes[0]?.client();
    const options = { url, keyPrefix: 'app:' };
    await using first = new Redlock(
      nodes.nodes.map((node) => node.client({ keyPrefix: 'app:' })),
      PATIENT,
    );
    await using second = new Redlock([createClient(options)], PATIENT);
    const key = fresh();
    for (const [own, other] of [
      [first, second],
      [second, first],
    ] as const) {
      const lock = await own.acquire(key, 5000);
      expect(await server?.get(`app:${key}`)).toBe(lock.value);
      expect(await other.tryAcquire(key, 5000)).toBeNull();
      await lock.extend(9000);
      expect(await lock.release()).toMatchObject({ released: 1 });
      expect(await server?.exists(`app:${key}`)).toBe(0);
    }
  });
});

async function counterOf(redlock: Redlock): Promise<number> {
  await using lock = await redlock.acquire(fresh(), 5000, { fencing: true });
  return lock.fencingToken?.counter ?? 0;
}

describe.skipIf(!canRunOnRedis('a Redis Cluster as a node', 'processes'))('a Redis Cluster as one node', () => {
  let plain: Provision;
  let clustered: Provision;
  let clients: (Redis | Cluster)[];

  beforeAll(async () => {
    [plain, clustered] = await Promise.all([provision({ nodes: 2, sources: ['processes'] }), clusterOf(1)]);
    const cluster = new Cluster([...clustered.urls], { clusterRetryStrategy: () => 100 });
    cluster.on('error', () => {});
    clients = [cluster, ...plain.nodes.map((node) => node.client())];
  });
  afterAll(async () => {
    clients?.[0]?.disconnect();
    await Promise.all([plain?.stop(), clustered?.stop()]);
  });

  test('votes', async () => {
    await using redlock = new Redlock(clients, PATIENT);
    const resources = [`{${fresh()}}:a`, `{${prefix}:${taken - 1}}:b`];
    const lock = await redlock.acquire(resources, 5000, { votesWanted: 'all' });
    expect(lock.votes.granted).toEqual([0, 1, 2]);
    await lock.extend(6000);
    expect(await redlock.inspect(resources[0] ?? '')).toMatchObject({ state: 'held', value: lock.value });
    expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
    await expect.poll(() => clients[0]?.exists(resources[0] ?? '')).toBe(0);
  });

  test('votes with the first command, whichever of its servers has the key', async () => {
    await using many = await clusterOf(3);
    const cluster = new Cluster([...many.urls]);
    cluster.on('error', () => {});
    for (let i = 0; i < 5; i++) {
      await using redlock = new Redlock([cluster], PATIENT);
      const locks = await Promise.all(Array.from({ length: 5 }, () => redlock.acquire(fresh(), 5000)));
      for (const lock of locks) await lock.release();
    }
    cluster.disconnect();
  });

  test('counts fencing tokens', async () => {
    await using redlock = new Redlock(clients, PATIENT);
    await redlock.recoverFencing(0);
    const [first, second] = [await counterOf(redlock), await counterOf(redlock)];
    expect(second).toBeGreaterThan(first);
    expect(Number.parseInt((await clients[0]?.get(COUNTER_KEYS[0])) ?? '', 10)).toBeGreaterThanOrEqual(first);
  });

  test('has no vote on resources of several slots', async () => {
    await using redlock = new Redlock(clients, PATIENT);
    await using lock = await redlock.acquire([fresh(), fresh()], 5000, { votesWanted: 'all' });
    expect(lock.votes).toMatchObject({ granted: [1, 2], failed: [0] });
  });

  test('that is away is not waited for, and votes again when it is back', async () => {
    await using redlock = new Redlock(clients, PATIENT);
    await (await redlock.acquire(fresh(), 5000, { votesWanted: 'all' })).release();
    await clustered.nodes[0]?.pause();
    const from = performance.now();
    for (let i = 0; i < 5; i++) await (await redlock.acquire(fresh(), 5000)).release();
    expect(performance.now() - from).toBeLessThan(500);
    await clustered.nodes[0]?.resume();
    await untilVoters(redlock, 3);
  });
});
