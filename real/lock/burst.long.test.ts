import { getEventListeners } from 'node:events';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { NodeProxy } from '../proxy/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type Lock, Redlock } from './index.js';
import { Pacer } from './pacer.js';

const MANY = 4000;
/** Nodes on a busy machine may be slow; what is shown here does not depend on it. */
const NODE_TIMEOUT_MS = 10_000;

describe('the pacer', () => {
  test('begins what comes in order, some at once and the rest in later turns', async () => {
    const pacer = new Pacer();
    const begun: number[] = [];
    for (let i = 0; i < 300; i++) pacer.run(() => begun.push(i));
    const atOnce = begun.length;
    expect(atOnce).toBeGreaterThanOrEqual(64);
    expect(atOnce).toBeLessThan(300);
    // An answer does not let anybody overtake those that wait.
    pacer.onReply();
    pacer.run(() => begun.push(300));
    await pacer.whenDrained();
    expect(begun).toEqual(Array.from({ length: 301 }, (_, i) => i));
  });

  test('has nobody wait as long as answers come', () => {
    const pacer = new Pacer();
    let begun = 0;
    for (let i = 0; i < 300; i++) {
      pacer.run(() => begun++);
      expect(begun).toBe(i + 1);
      pacer.onReply();
    }
  });
});

describe.skipIf(!canRunOnRedis('bursts', 'processes'))('many locks in one turn of the event loop', () => {
  let nodes: Provision;
  let clients: Redis[];
  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
    clients = nodes.nodes.map((node) => node.client());
  });
  afterAll(() => nodes?.stop());

  const resources = Array.from({ length: MANY }, (_, i) => `burst:${i}`);
  const keysLeft = () => Promise.all(clients.map((client) => client.dbsize()));
  const NONE = [0, 0, 0, 0, 0];
  const setCalls = async () =>
    Number(/cmdstat_set:calls=(\d+)/.exec((await clients[0]?.info('commandstats')) ?? '')?.[1]);

  async function warm(settings = {}): Promise<Redlock> {
    const redlock = new Redlock(clients, { retryCount: 0, nodeTimeoutMs: NODE_TIMEOUT_MS, ...settings });
    await (await redlock.acquire('warm', 5000, { votesWanted: 'all', nodeTimeoutMs: 2000 })).release();
    return redlock;
  }

  test('are all acquired, extended and released', async () => {
    await using redlock = await warm();
    const locks = await Promise.all(resources.map((resource) => redlock.acquire(resource, 60_000)));
    await Promise.all(locks.map((lock) => lock.extend(90_000)));
    const reports = await Promise.all(locks.map((lock) => lock.release()));
    expect(reports.filter(({ released }) => released < 3)).toEqual([]);
    await expect.poll(keysLeft, { timeout: 10_000 }).toEqual(NONE);
  });

  test('begin when those before them have been answered: no node owes answers to all at once', async () => {
    const before = await setCalls();
    await using redlock = await warm();
    const abort = new AbortController();
    const acquiring = resources.map((resource) => redlock.acquire(resource, 60_000, { signal: abort.signal }));
    const first = await Promise.any(acquiring);
    abort.abort();
    const rest = await Promise.allSettled(acquiring);
    expect((await setCalls()) - before).toBeLessThan(MANY / 2);
    await first.release();
    await Promise.all(rest.map((it) => it.status === 'fulfilled' && it.value.release()));
    await expect.poll(keysLeft, { timeout: 10_000 }).toEqual(NONE);
  });

  test('are all acquired when the connections are still being made', async () => {
    await using redlock = new Redlock(clients, { retryCount: 0, nodeTimeoutMs: NODE_TIMEOUT_MS });
    const locks = await Promise.all(resources.map((resource) => redlock.acquire(resource, 60_000)));
    await Promise.all(locks.map((lock) => lock.release()));
    await expect.poll(keysLeft, { timeout: 10_000 }).toEqual(NONE);
  });

  test('extend themselves in one turn', async () => {
    await using redlock = await warm();
    const some = resources.slice(0, 500);
    // Each would have ended without an extension.
    const using = some.map((resource) =>
      redlock.using([resource], 6_000, { automaticExtensionThreshold: 3_000 }, async (signal, lock) => {
        await new Promise((resolve) => setTimeout(resolve, 6_500));
        signal.throwIfAborted();
        return lock.remaining() > 0;
      }),
    );
    expect((await Promise.all(using)).filter(Boolean)).toHaveLength(some.length);
    await expect.poll(keysLeft, { timeout: 10_000 }).toEqual(NONE);
  });

  test.each<[string, Partial<Record<'away', boolean>>]>([
    ['with warm connections', {}],
    ['with connections that are still being made', { away: true }],
  ])('leave no key when quit follows at once, %s', async (_, { away }) => {
    const redlock = away ? new Redlock(clients, { nodeTimeoutMs: NODE_TIMEOUT_MS }) : await warm();
    const acquiring = resources.map((resource) => redlock.acquire(resource, 60_000).catch((error) => error.code));
    const quitting = redlock.quit();
    expect([...new Set(await Promise.all(acquiring))]).toEqual(['ERR_LOCK_ABORTED']);
    await quitting;
    expect(await keysLeft()).toEqual(NONE);
  });

  test('leave no key when quit follows their release at once', async () => {
    const redlock = await warm();
    const locks = await Promise.all(resources.map((resource) => redlock.acquire(resource, 60_000)));
    const releasing = locks.map((lock) => lock.release());
    await redlock.quit();
    expect(await keysLeft()).toEqual(NONE);
    expect((await Promise.all(releasing)).filter(({ released }) => released < 3)).toEqual([]);
  });

  test('quit says what a node did not confirm, and does not wait for it', async () => {
    const redlock = await warm({ nodeTimeoutMs: 1000 });
    const errors: string[] = [];
    redlock.on('error', (error, node) => errors.push(`${node}: ${error.message}`));
    const locks: Lock[] = [];
    for (const resource of resources.slice(0, 3)) {
      locks.push(await redlock.acquire(resource, 60_000, { votesWanted: 'all', nodeTimeoutMs: 2000 }));
    }
    await nodes.nodes[1]?.pause();
    try {
      const released = Promise.all(locks.map((lock) => lock.release()));
      await redlock.quit();
      await released;
      expect(errors).toEqual(['1: n1 was closed with 3 releases that it has not confirmed.']);
    } finally {
      await nodes.nodes[1]?.resume();
    }
    await Promise.all(clients.map((client) => client.flushall()));
  });

  test('a node has its time-out from when it was written to, however long the turn takes', async () => {
    const targets = nodes.urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }));
    const proxies = await Promise.all(targets.map((target) => NodeProxy.open(target)));
    const own = proxies.map(({ url }) => new Redis(url).on('error', () => {}));
    const redlock = new Redlock(own, { retryCount: 0, nodeTimeoutMs: 200 });
    await (await redlock.acquire('warm', 5000, { votesWanted: 'all', nodeTimeoutMs: 2000 })).release();
    for (const proxy of proxies) proxy.delay(20, 20);
    // The first goes out at once; the second is held back to the end of the turn.
    const locks = ['one', 'two'].map((resource) => redlock.acquire(resource, 60_000));
    const until = performance.now() + 400;
    while (performance.now() < until) {
      // Blocks the loop.
    }
    expect((await Promise.allSettled(locks)).at(1)).toMatchObject({ status: 'fulfilled' });
    for (const client of own) client.disconnect();
    await redlock.quit();
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await Promise.all(clients.map((client) => client.flushall()));
  });

  test('with one signal make no warning, and all end when it aborts', async () => {
    const warnings: Error[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on('warning', listen);
    await using redlock = await warm();
    const abort = new AbortController();
    const { signal } = abort;
    const acquiring = resources.map((resource) =>
      redlock.acquire(resource, 60_000, { signal }).catch((error) => error.code),
    );
    abort.abort();
    expect([...new Set(await Promise.all(acquiring))]).toEqual(['ERR_LOCK_ABORTED']);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    await expect.poll(keysLeft, { timeout: 10_000 }).toEqual(NONE);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', listen);
    expect(warnings).toEqual([]);
  });
});
