import { spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import type { Redis } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { canRun } from '../testing/can-run.js';
import { findEngine } from './containers.js';
import { type Provision, ProvisionError, provision } from './index.js';

const TTL_MS = 10_000;
/** Far above what an answer takes, even on a machine that runs other suites beside. */
const NODE_TIMEOUT_MS = 1000;
const PROGRAM = `
  import { provision } from './real/provisioner/index.ts';
  await provision({ nodes: 2, sources: ['containers'] });
  console.log('ready');
  setInterval(() => {}, 1000);`;
const engine = await findEngine();
const noEngine = engine instanceof ProvisionError ? engine.message : undefined;
const noProgram = spawnSync('docker', ['--version']).status === 0 ? undefined : 'the program docker is not installed';

const messageOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'nothing was thrown',
    (error: unknown) => (error instanceof ProvisionError ? error.message : String(error)),
  );

describe('containers that cannot be had', () => {
  const asked = () => messageOf(provision({ nodes: 1, sources: ['containers'], env: {} }));
  const given = (module: () => object) => vi.doMock('testcontainers', module);
  afterEach(() => {
    vi.doUnmock('testcontainers');
  });

  test('without an engine: the message says so in one sentence', async () => {
    given(() => ({
      getContainerRuntimeClient: () => Promise.reject(new Error('Could not find a working strategy\nand more')),
    }));
    expect(await asked()).toMatchInlineSnapshot(
      `"Redis in containers needs the package testcontainers and a Docker engine with the image, but testcontainers reaches no Docker engine (Could not find a working strategy)."`,
    );
  });

  test('without the image: the message names it', async () => {
    const refusal = '(HTTP code 500) server error - no route to host. ';
    const image = { pull: () => Promise.reject(new Error(refusal)) };
    given(() => ({
      getContainerRuntimeClient: async () => ({ image }),
      ImageName: { fromString: (name: string) => name },
    }));
    expect(await asked()).toMatchInlineSnapshot(
      `"Redis in containers needs the package testcontainers and a Docker engine with the image, but the engine has no image redis:7-alpine and cannot pull it (no route to host)."`,
    );
  });

  test('without the image of the reaper: the message says how to do without', async () => {
    given(() => ({
      getContainerRuntimeClient: async () => ({ image: { pull: async () => undefined, exists: async () => true } }),
      getReaper: () => Promise.reject(new Error('no route to host')),
      ImageName: { fromString: (name: string) => name },
    }));
    expect(await asked()).toMatchInlineSnapshot(
      `"Redis in containers needs the package testcontainers and a Docker engine with the image, but testcontainers cannot start its reaper, which TESTCONTAINERS_RYUK_DISABLED=true does without (no route to host)."`,
    );
  });

  test('without the package: the message names it', async () => {
    given(() => {
      throw new Error('Cannot find package');
    });
    expect(await asked()).toMatch(/needs the package testcontainers and .* but the package .* is not installed \(/);
  });

  test('the mock comes after them', async () => {
    given(() => ({ getContainerRuntimeClient: () => Promise.reject(new Error('none')) }));
    await using mock = await provision({ nodes: 1, sources: ['mock', 'containers'], env: {} });
    expect(mock.source).toBe('mock');
  });
});

describe.skipIf(!canRun('the lock on five containers', 'docker', noEngine))('the lock on five containers', () => {
  let provided: Provision;
  let clients: Redis[];
  let redlock: Redlock;

  beforeAll(async () => {
    provided = await provision({ nodes: 5, sources: ['containers'] });
    clients = provided.nodes.map((node) => node.client());
  });
  afterAll(() => provided?.stop());

  /** Waits until every node votes: after a restart, connections come back in their own time. */
  const allVote = () =>
    expect
      .poll(
        async () => {
          await using lock = await redlock.acquire('all', TTL_MS, { votesWanted: 'all' });
          return lock.votes.granted;
        },
        { timeout: 20_000 },
      )
      .toEqual([0, 1, 2, 3, 4]);

  beforeEach(async () => {
    redlock = new Redlock(clients, { retryCount: 0, nodeTimeoutMs: NODE_TIMEOUT_MS });
    await allVote();
  });
  afterEach(() => redlock.quit());

  test('where the engine is on this machine, they are published on its loopback alone', async () => {
    expect(provided).toMatchObject({ source: 'containers', faults: true });
    expect(provided.description).toMatch(/^5 × \S+ \((redis|valkey) \d\S*\) in containers on \S+$/);
    expect(new Set(provided.urls).size).toBe(5);
    if (engine instanceof ProvisionError || engine.host !== '127.0.0.1') return;
    const options = { filters: { ancestor: [engine.image] } };
    const containers = await engine.client.container.dockerode.listContainers(options);
    expect(new Set(containers.flatMap(({ Ports }) => Ports.map(({ IP }) => IP)))).toEqual(new Set(['127.0.0.1']));
  });

  test('it is acquired, extended and released', async () => {
    const lock = await redlock.acquire('a', TTL_MS, { votesWanted: 'all' });
    expect(new Set(await Promise.all(clients.map((client) => client.get('a'))))).toEqual(new Set([lock.value]));
    await lock.extend(TTL_MS * 6);
    expect(lock.remaining()).toBeGreaterThan(TTL_MS * 5);
    expect(await lock.release()).toMatchObject({ unreachable: 0 });
    expect(await messageOf(redlock.acquire('a', TTL_MS).then((again) => again.release()))).toBe('nothing was thrown');
  });

  test('with one killed and one paused it is acquired all the same; started again, they vote', async () => {
    const [killed, paused] = provided.nodes;
    await killed?.kill();
    await paused?.pause();
    const lock = await redlock.acquire('b', TTL_MS);
    await lock.extend(TTL_MS);
    expect(lock.votes.granted).toEqual([2, 3, 4]);
    expect(await lock.release()).toMatchObject({ released: 3 });
    expect(await messageOf(killed?.pause() ?? Promise.resolve())).toBe('n0 is not running.');
    expect(await messageOf(killed?.restart({ keepData: true }) ?? Promise.resolve())).toBe(
      'n0 was killed without persistence: it has no data to keep.',
    );
    await killed?.restart({ keepData: false });
    await paused?.resume();
    await allVote();
  });

  test('with three paused it fails as unreachable, and no key of it stays when they run on', async () => {
    const three = provided.nodes.slice(0, 3);
    await Promise.all(three.map((node) => node.pause()));
    const error = await redlock.acquire('c', TTL_MS).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'ERR_LOCK_QUORUM_UNREACHABLE',
      votes: { granted: [3, 4], failed: [0, 1, 2], quorum: 3 },
    });
    await Promise.all(three.map((node) => node.resume()));
    const keys = async () => Promise.all(clients.map((client) => client.get('c')));
    await expect.poll(keys, { timeout: 5000 }).toEqual([null, null, null, null, null]);
  });

  test('a node comes back at the same URL with its data or without, even when it was paused', async () => {
    const [node] = provided.nodes;
    const [client] = clients;
    await client?.set('k', 'v');
    await node?.restart({ keepData: true });
    expect([node?.url, await client?.get('k')]).toEqual([provided.urls[0], 'v']);
    await node?.pause();
    await node?.restart({ keepData: false });
    expect([node?.url, await client?.get('k')]).toEqual([provided.urls[0], null]);
    await node?.pause();
    await node?.kill();
    await node?.restart({ keepData: false });
    await allVote();
  });

  test('acknowledged keys outlive a kill with an append-only file', async () => {
    await using durable = await provision({ nodes: 1, sources: ['containers'], persistence: 'always' });
    const [node] = durable.nodes;
    const client = node?.client();
    await client?.set('k', 'v');
    await node?.kill();
    await node?.restart({ keepData: true });
    expect(await client?.get('k')).toBe('v');
  });

  const ids = async () => {
    if (engine instanceof ProvisionError) throw engine;
    // Others may have containers on this engine.
    const options = { all: true, filters: { ancestor: [engine.image] } };
    return (await engine.client.container.dockerode.listContainers(options)).map(({ Id }) => Id);
  };

  // By the engine's own program, where that is; elsewhere the reaper of testcontainers sees to it.
  test.skipIf(!canRun('the end of containers by a signal', 'docker', noProgram))(
    'they end with the process when it gets a signal',
    async () => {
      const before = await ids();
      const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', PROGRAM], {
        cwd: new URL('../..', import.meta.url),
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      await new Promise((resolve) => child.stdout.once('data', resolve));
      expect(await ids()).toHaveLength(before.length + 2);
      const ended = new Promise((resolve) => child.once('exit', (_code, by) => resolve(by)));
      child.kill('SIGTERM');
      expect(await ended).toBe('SIGTERM');
      expect(await ids()).toEqual(before);
    },
  );

  test('stopped ones are gone', async () => {
    const before = await ids();
    const some = await provision({ nodes: 1, sources: ['containers'] });
    expect(await ids()).toHaveLength(before.length + 1);
    await some.nodes[0]?.pause();
    await some.stop();
    expect(await ids()).toEqual(before);
    // Nobody listens there any more.
    const port = Number(new URL(some.urls[0] ?? '').port);
    const server = createServer().listen(port, '127.0.0.1');
    await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject));
    server.close();
  });
});
