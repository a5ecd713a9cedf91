import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { NodeProxy } from '../proxy/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { CLIENT_KINDS, type ClientKind, type MadeClient } from '../testing/client-kinds.js';
import { Redlock } from './index.js';

const TTL_MS = 60_000;

describe.skipIf(!canRunOnRedis('half-open connections'))('a connection whose other end vanished without a word', () => {
  describe.each(CLIENT_KINDS)('of %s', (_, make) => halfOpenWith(make));
});

function halfOpenWith(make: ClientKind): void {
  let nodes: Provision;
  let proxies: NodeProxy[];
  let made: MadeClient[];
  let redlock: Redlock;

  beforeEach(async () => {
    nodes = await provision({ nodes: 3 });
    proxies = await Promise.all(
      nodes.urls.map((url) => NodeProxy.open({ host: new URL(url).hostname, port: Number(new URL(url).port) })),
    );
    made = await Promise.all(proxies.map(({ url }) => make(url)));
    redlock = new Redlock(
      made.map(({ client }) => client),
      { retryCount: 0, nodeTimeoutMs: 1000 },
    );
    await (await redlock.acquire('warm', TTL_MS, { votesWanted: 'all', retryCount: 20 })).release();
  });
  afterEach(async () => {
    await redlock.quit();
    for (const { close } of made) close();
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await nodes.stop();
  });

  test('is replaced after a second of silence, and costs no lock meanwhile', async () => {
    proxies[2]?.halfOpen();
    const from = performance.now();
    let votes = 0;
    while (votes < 3 && performance.now() - from < 10_000) {
      const lock = await redlock.acquire('a', TTL_MS);
      await sleep(20);
      votes = lock.votes.granted.length;
      await lock.release();
    }
    expect(votes).toBe(3);
    expect(performance.now() - from).toBeGreaterThan(1000);
  });

  test('takes a release with it, which the node gets when it is reached again', async () => {
    const lock = await redlock.acquire('a', TTL_MS, { votesWanted: 'all' });
    proxies[2]?.halfOpen();
    expect(await lock.release()).toMatchObject({ released: 2 });
    const direct = nodes.nodes[2]?.client();
    expect(await direct?.get('a')).toBe(lock.value);
    await sleep(1100);
    // What is asked of the node next shows that it is silent.
    for (let i = 0; i < 3; i++) await (await redlock.acquire(`b${i}`, TTL_MS)).release();
    await expect.poll(() => direct?.get('a'), { timeout: 5000 }).toBeNull();
    // The same for what a lost connection could not take any more.
    const other = await redlock.acquire('c', TTL_MS, { votesWanted: 'all' });
    proxies[2]?.cut();
    await sleep(5);
    await other.release();
    await expect.poll(() => direct?.get('c'), { timeout: 5000 }).toBeNull();
  });
}
