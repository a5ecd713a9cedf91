import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { canRunOnRedis } from '../testing/can-run.js';
import { isRequired, type Provision, ProvisionError, provision } from './index.js';

const messageOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'nothing was thrown',
    (error: unknown) => (error instanceof ProvisionError ? error.message : String(error)),
  );
const given = (urls: string, nodes = 2) => provision({ nodes, env: { LOCKSTEP_REDIS: urls } });

describe('where Redis comes from', () => {
  test('nowhere: the message names the ways to get one', async () => {
    expect(
      await messageOf(provision({ nodes: 5, sources: ['urls', 'processes'], env: { PATH: '' } })),
    ).toMatchInlineSnapshot(
      `"No Redis to be found. To get one, set LOCKSTEP_REDIS=redis://host:port,redis://host:port,… to nodes that run already; or install Redis so that redis-server is on the PATH (apt-get install redis-server, brew install redis); or install Valkey so that valkey-server is on the PATH (apt-get install valkey, brew install valkey)."`,
    );
  });

  test('the mock is only taken where it is asked for, and says what it is for', async () => {
    await using mock = await provision({ nodes: 3, sources: ['processes', 'mock'], env: { PATH: '' } });
    expect(mock).toMatchObject({ source: 'mock', faults: false });
    expect(mock.description).toContain('for trying the API only');
    const [first, second] = mock.nodes.map((node) => node.client());
    await first?.set('k', 'v');
    expect(await second?.get('k')).toBeNull();
    expect(await messageOf(mock.nodes[0]?.kill() ?? Promise.resolve())).toBe(
      'ioredis-mock is for trying the API only: it cannot be killed, paused or restarted.',
    );
  });

  test('it can be required, among other things', () => {
    expect(isRequired('redis', { LOCKSTEP_REQUIRE: 'docker, redis' })).toBe(true);
    expect(isRequired('redis', { LOCKSTEP_REQUIRE: 'docker' })).toBe(false);
    expect(isRequired('redis', {})).toBe(false);
  });
});

describe('LOCKSTEP_REDIS', () => {
  test('must be URLs of Redis', async () => {
    expect(await messageOf(given('redis://127.0.0.1:1,http://127.0.0.1'))).toBe(
      'LOCKSTEP_REDIS has http://127.0.0.1, but it must list URLs such as redis://127.0.0.1:6379, with commas between.',
    );
    expect(await messageOf(given('127.0.0.1:6379'))).toContain('LOCKSTEP_REDIS has 127.0.0.1:6379, but');
  });

  test('must not name a node twice', async () => {
    expect(await messageOf(given('redis://localhost,redis://127.0.0.1:6379/0'))).toBe(
      'LOCKSTEP_REDIS has the node redis://127.0.0.1:6379/0 twice: it would vote twice.',
    );
  });

  test('must name enough nodes', async () => {
    expect(await messageOf(given('redis://127.0.0.1:1,redis://127.0.0.1:2', 3))).toBe(
      'LOCKSTEP_REDIS names 2 of the 3 nodes that are needed.',
    );
  });

  test('must lead somewhere; the message has no password in it', async () => {
    const message = await messageOf(given('redis://user:secret@127.0.0.1:1', 1));
    expect(message).toBe(
      'LOCKSTEP_REDIS: no Redis answers at redis://user:***@127.0.0.1:1 (connect ECONNREFUSED 127.0.0.1:1).',
    );
  });

  test('a server that accepts and says nothing is as good as none', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    expect(await messageOf(given(`redis://127.0.0.1:${port}`, 1))).toMatch(
      /no Redis answers .*no answer within 2000 ms/,
    );
    server.close();
  });
});

describe.skipIf(!canRunOnRedis('own server processes', 'processes'))('own server processes', () => {
  let nodes: Provision;
  beforeAll(async () => {
    nodes = await provision({ nodes: 2, sources: ['processes'] });
  });
  afterAll(() => nodes?.stop());

  test('run on the loopback, pause, resume, and come back with their data or without', async () => {
    const [node] = nodes.nodes;
    if (node === undefined) throw new Error('no node');
    expect(nodes).toMatchObject({ source: 'processes', faults: true });
    expect(nodes.description).toMatch(/^2 × (redis|valkey)-server \d.* on 127\.0\.0\.1$/);
    const client = node.client();
    await client.set('k', 'v');
    await node.pause();
    const answer = client.get('k');
    const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 100, 'nothing'))]);
    await node.resume();
    expect([first, await answer]).toEqual(['nothing', 'v']);
    await node.restart({ keepData: true });
    expect(await client.get('k')).toBe('v');
    await node.restart({ keepData: false });
    expect(await client.get('k')).toBeNull();
    await node.kill();
    expect(await messageOf(node.restart({ keepData: true }))).toBe(
      'n0 was killed without persistence: it has no data to keep.',
    );
    expect(await messageOf(node.pause())).toBe('n0 is not running.');
    await node.restart({ keepData: false });
    expect(await client.ping()).toBe('PONG');
  });

  test('keep acknowledged keys over a kill with an append-only file', async () => {
    await using durable = await provision({ nodes: 1, sources: ['processes'], persistence: 'always' });
    const [node] = durable.nodes;
    const client = node?.client();
    await client?.set('k', 'v');
    await node?.kill();
    await node?.restart({ keepData: true });
    expect(await client?.get('k')).toBe('v');
  });

  test('LOCKSTEP_REDIS comes first, and such nodes are not ours to kill', async () => {
    await using outside = await given(nodes.urls.join(','), 2);
    expect(outside).toMatchObject({ source: 'urls', faults: false, urls: nodes.urls });
    expect(outside.description).toMatch(/^2 nodes given by LOCKSTEP_REDIS, version \d/);
    expect(await messageOf(outside.nodes[0]?.kill() ?? Promise.resolve())).toBe(
      'Nodes given by LOCKSTEP_REDIS are not ours to kill, pause or restart.',
    );
  });

  test('leave nothing behind when they are stopped', async () => {
    // Other tests start nodes at the same time: a folder for temporary files of its own tells whose they are.
    const temporary = mkdtempSync(join(tmpdir(), 'lockstep-provisioner-'));
    vi.stubEnv('TMPDIR', temporary);
    const listeners = process.listenerCount('exit');
    const some = await provision({ nodes: 1, sources: ['processes'] });
    vi.unstubAllEnvs();
    const url = some.urls[0] ?? '';
    expect(readdirSync(temporary)).toHaveLength(1);
    await some.stop();
    expect(readdirSync(temporary)).toEqual([]);
    rmSync(temporary, { recursive: true });
    expect(await messageOf(given(url, 1))).toContain('no Redis answers');
    expect(process.listenerCount('exit')).toBe(listeners);
  });
});
