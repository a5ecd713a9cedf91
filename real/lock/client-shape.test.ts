import { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';
import { Redis as Upstash } from '@upstash/redis';
import { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { NodeProxy } from '../proxy/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { untilVoters } from '../testing/voters.js';
import { clusterOf } from '../testing/wrapped-servers.js';
import { LockError, Redlock, type RedlockClient, type RedlockTransport } from './index.js';

interface NodeRedis {
  createClient(options?: object): unknown;
  createClientPool(options?: object): unknown;
  createCluster(options: object): unknown;
  createSentinel(options: object): unknown;
}
const require = createRequire(import.meta.url);

/** What anybody could hand in from JavaScript. */
const locks = (clients: readonly unknown[]): Redlock =>
  new Redlock(clients as RedlockClient[], { nodeTimeoutMs: 2000 });

function refusal(clients: readonly unknown[]): string {
  try {
    locks(clients);
  } catch (error) {
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({ code: 'ERR_LOCK_CONFIG' });
    return (error as LockError).message;
  }
  throw new Error('nothing was thrown');
}

const NODE_REDIS =
  'a pool, Cluster or Sentinel of node-redis, which sends commands later or again: use createClient, or a client of ioredis.';

describe.each(['redis5', 'redis'])('of node-redis, %s', (name) => {
  const library: NodeRedis = require(name);
  const cluster = { rootNodes: [{ url: 'redis://127.0.0.1:1' }] };
  const sentinel = { name: 'm', sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }] };
  test.each<[string, () => unknown]>([
    ['a pool', () => library.createClientPool()],
    ['a cluster', () => library.createCluster(cluster)],
    ['a sentinel', () => library.createSentinel(sentinel)],
  ])('%s is refused by its name', (_, make) => {
    expect(refusal([make(), make(), make()])).toBe(`The client of n0 is ${NODE_REDIS}`);
  });

  test('clients of one server are one node', () => {
    const clients = [0, 1].map((database) => library.createClient({ url: 'redis://localhost:1', database }));
    expect(refusal(clients)).toBe('n0 and n1 are the same server, 127.0.0.1:1: it would vote twice.');
  });
});

test.each<[unknown, string]>([
  [undefined, 'The client of n0 is undefined, not a client.'],
  [null, 'The client of n0 is null, not a client.'],
  [7, 'The client of n0 is a number, not a client.'],
  ['127.0.0.1:6379', 'The client of n0 is a string, but no URL such as redis://host:port.'],
  ['https://one.upstash.io', 'The client of n0 is a string, but no URL such as redis://host:port.'],
  [Promise.resolve(), 'The client of n0 is a promise, not a client: await it first.'],
  [
    {},
    'The client of n0 is no client that is known: locks need a client of ioredis, iovalkey, node-redis or Upstash, or a transport with the method openSession.',
  ],
  [{ duplicate: () => undefined }, 'duplicate of a client makes no connections: locks need ioredis clients.'],
  [
    { duplicate: async () => ({}) },
    'duplicate of a client makes promises, not connections: locks need ioredis clients.',
  ],
  [
    { duplicate: () => new EventEmitter() },
    'duplicate of a client makes connections without set, evalsha, eval, get, pttl, script, connect, quit, disconnect: locks need ioredis clients.',
  ],
  [
    {
      duplicate: () => {
        throw new TypeError('mine');
      },
    },
    'duplicate of a client failed.',
  ],
])('%o is refused', (client, sentence) => {
  expect(refusal([client])).toBe(sentence);
});

test('databases of one server are one node', () => {
  const clients = [0, 1, 2].map((db) => new Redis({ port: 1, db, lazyConnect: true }));
  expect(refusal(clients)).toBe('n0 and n1 are the same server, 127.0.0.1:1: it would vote twice.');
});

test('clients and addresses of one database of Upstash are one node', () => {
  const address = { url: 'https://one.upstash.io', token: 'any' };
  const clients = [address, new Upstash({ ...address, enableTelemetry: false })];
  expect(refusal(clients)).toBe('n0 and n1 are the same server, one.upstash.io: it would vote twice.');
});

test('URLs of one server are one node', () => {
  const urls = ['redis://:secret@localhost/1', 'redis://127.0.0.1:6379'];
  expect(refusal(urls)).toBe('n0 and n1 are the same server, 127.0.0.1:6379: it would vote twice.');
});

test('ioredis-mock serves', async () => {
  await using nodes = await provision({ nodes: 3, sources: ['mock'] });
  await using redlock = locks(nodes.nodes.map((node) => node.client()));
  await using lock = await redlock.acquire('a', 5000, { votesWanted: 'all' });
  expect(lock.votes.granted).toEqual([0, 1, 2]);
});

describe.skipIf(!canRunOnRedis('clients of other shapes', 'processes'))('on real servers', () => {
  let nodes: Provision;
  let clients: Redis[];
  beforeAll(async () => {
    nodes = await provision({ nodes: 3, sources: ['processes'] });
    clients = nodes.nodes.map((node) => node.client());
  });
  afterAll(() => nodes?.stop());

  /** A client of no library: its connections are ioredis's, but for what `set` does. */
  function wrapped(client: Redis, set: (connection: Redis, ...args: unknown[]) => unknown): RedlockClient {
    return {
      duplicate: (options) => {
        const connection = client.duplicate(options);
        Reflect.set(connection, 'defineCommand', undefined);
        // Of no ioredis, there is nothing below its methods that a lock could use.
        Object.defineProperty(connection, 'commandQueue', { value: undefined, configurable: true });
        Reflect.set(connection, 'set', (...args: unknown[]) => set(connection, ...args));
        return connection;
      },
    };
  }

  const plainly = (connection: Redis, ...args: unknown[]): unknown => connection.call('set', ...(args as string[]));

  test.each<[string, (connection: Redis, ...args: unknown[]) => unknown, string]>([
    [
      'leaves out NX and the TTL',
      (connection, key, value) => connection.call('set', String(key), String(value)),
      'The client of n0 makes no lock: SET with NX overwrote a key.',
    ],
    [
      'leaves out the TTL',
      (connection, key, value) => connection.call('set', String(key), String(value), 'NX'),
      'The client of n0 makes no lock: SET with PX set a key without that TTL.',
    ],
    [
      'replies in its own words',
      async (connection, ...args) => (await plainly(connection, ...args)) === 'OK',
      'The client of n0 makes no lock: SET with NX of a new key replied true, not OK.',
    ],
    [
      'throws',
      () => {
        throw new TypeError('an object is wanted');
      },
      'The client of n0 makes no lock: SET failed: an object is wanted.',
    ],
  ])('a client whose SET %s is found out before the first lock', async (_, set, sentence) => {
    await using redlock = locks(clients.map((client) => wrapped(client, set)));
    await expect(redlock.acquire('probed', 5000)).rejects.toMatchObject({
      code: 'ERR_LOCK_CONFIG',
      message: expect.stringMatching(new RegExp(sentence.replace('n0', 'n[012]'))),
    });
    expect(await Promise.all(clients.map((client) => client.exists('probed')))).toEqual([0, 0, 0]);
  });

  test('a transport that loses words of a command is found out before the first lock', async () => {
    const transport = (client: Redis): RedlockTransport => ({
      openSession: ({ onReady }) => {
        onReady();
        return {
          send: ([name = '', ...words]) => client.call(name, ...words.filter((word) => word !== 'NX')),
          close: () => {},
        };
      },
    });
    await using redlock = locks(clients.map(transport));
    await expect(redlock.acquire('worded', 5000)).rejects.toMatchObject({
      code: 'ERR_LOCK_CONFIG',
      message: expect.stringMatching(/^The client of n[012] makes no lock: SET with NX overwrote a key\.$/),
    });
    expect(await Promise.all(clients.map((client) => client.exists('worded')))).toEqual([0, 0, 0]);
  });

  test('a client of no library that does what it should serves, and leaves no trace of the probe', async () => {
    // What was cut off in its own probe by the end of another test leaves one for 10 s.
    await Promise.all(clients.map((client) => client.flushall()));
    await using redlock = locks(clients.map((client) => wrapped(client, plainly)));
    const lock = await redlock.acquire('wrapped', 5000, { votesWanted: 'all' });
    expect(lock.votes.granted).toEqual([0, 1, 2]);
    await lock.release();
    expect(await Promise.all(clients.map((client) => client.keys('*probe*')))).toEqual([[], [], []]);
  });

  test('one server under several addresses is found out before the first lock', async () => {
    const { hostname: host, port } = new URL(nodes.urls[0] ?? '');
    const proxies = await Promise.all([0, 1].map(() => NodeProxy.open({ host, port: Number(port) })));
    const own = [...proxies.map(({ url }) => new Redis(url)), ...clients.slice(1, 2)];
    await using redlock = locks(own);
    await expect(redlock.acquire('twice', 5000)).rejects.toMatchObject({
      code: 'ERR_LOCK_CONFIG',
      message: 'n0 and n1 are the same server: it would vote twice.',
    });
    expect(await Promise.all(clients.map((client) => client.exists('twice')))).toEqual([0, 0, 0]);
    for (const client of own) client.disconnect();
    await Promise.all(proxies.map((proxy) => proxy.close()));
  });

  test('an address that comes to lead to the server of another node has no vote while it does', async () => {
    const targets = nodes.urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }));
    const [first, second, third] = targets;
    if (first === undefined || second === undefined || third === undefined) throw new Error('three nodes are needed');
    const proxy = await NodeProxy.open(third);
    const moved = await NodeProxy.open(second);
    const errors: string[] = [];
    const [a, b] = clients;
    if (a === undefined || b === undefined) throw new Error('three nodes are needed');
    let port = Number(new URL(proxy.url).port);
    const roving: RedlockClient = {
      duplicate: (options) => {
        const made = b.duplicate({ ...options, host: '127.0.0.1', port });
        made.on('close', () => {
          made.options.port = port;
        });
        return made;
      },
    };
    await using redlock = locks([a, b, roving]);
    redlock.on('error', (error, node) => errors.push(`${node} ${error.message}`));
    await untilVoters(redlock, 3);
    port = Number(new URL(moved.url).port);
    await proxy.close();
    await untilVoters(redlock, 2);
    await expect.poll(() => errors).toContain('2 n1 and n2 are the same server: it would vote twice.');
    await (await redlock.acquire('moved', 5000)).release();
    await moved.close();
  });

  test('one Cluster under two clients is found out', async () => {
    const clustered = await clusterOf(1);
    const own = [0, 1].map(() => new Cluster([...clustered.urls], { clusterRetryStrategy: () => 100 }));
    for (const client of own) client.on('error', () => {});
    const redlock = new Redlock([...own, ...clients.slice(0, 1)], { nodeTimeoutMs: 2000 });
    await expect(redlock.acquire('twice', 5000)).rejects.toMatchObject({
      code: 'ERR_LOCK_CONFIG',
      message: 'n0 and n1 are the same server: it would vote twice.',
    });
    await redlock.quit();
    for (const client of own) client.disconnect();
    await clustered.stop();
  });
});
