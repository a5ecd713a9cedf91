import { Redis } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type CommandFate, NodeProxy } from './index.js';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Longer than an answer takes, on a machine that does other things too. */
const SILENCE_MS = 150;
/** Or ioredis sends again what got lost. */
const NO_RESEND = { autoResendUnfulfilledCommands: false };

describe.skipIf(!canRunOnRedis('the proxy', 'processes'))('a proxy before a real node', { timeout: 10_000 }, () => {
  let provided: Provision;
  let direct: Redis;
  let proxy: NodeProxy;
  let client: Redis;
  let fate: (words: readonly string[]) => CommandFate = () => ({});

  beforeAll(async () => {
    provided = await provision({ nodes: 1, sources: ['processes'] });
    direct = new Redis(provided.urls[0] ?? '');
  });
  afterAll(async () => {
    direct?.disconnect();
    await provided?.stop();
  });
  beforeEach(async () => {
    fate = () => ({});
    const { hostname: host, port } = new URL(provided.urls[0] ?? '');
    proxy = await NodeProxy.open({ host, port: Number(port), fate: (words) => fate(words) });
    client = new Redis(proxy.url, { disconnectTimeout: 1, retryStrategy: () => 10, ...NO_RESEND });
    client.on('error', () => {});
    await client.ping();
  });
  afterEach(async () => {
    client.disconnect();
    await proxy.close();
    await direct.flushall();
  });

  /** Ends all losses, and waits until the client has connected again. */
  const healed = async (): Promise<void> => {
    const ready = new Promise((resolve) => client.once('ready', resolve));
    proxy.drop('nothing');
    await ready;
  };

  /** What comes of a command within the time of silence. */
  const answer = (command: Promise<unknown>): Promise<unknown> =>
    Promise.race([command.catch((error: Error) => error.message), sleep(SILENCE_MS).then(() => 'silence')]);

  test('lets everything pass, in order, also what travels in one write', async () => {
    const commands = Array.from({ length: 500 }, (_, i) => client.set(`k${i}`, '\r\n$5\r\n'.repeat(i % 7)));
    expect(new Set(await Promise.all(commands))).toEqual(new Set(['OK']));
    expect(await direct.dbsize()).toBe(500);
    expect(await client.get('k6')).toBe('\r\n$5\r\n'.repeat(6));
  });

  test('a lost request was never carried out; a lost reply was', async () => {
    proxy.drop('requests');
    expect(await answer(client.set('request', '1'))).toBe('silence');
    await healed();
    proxy.drop('replies');
    expect(await answer(client.set('reply', '1'))).toBe('silence');
    expect(await direct.mget('request', 'reply')).toEqual([null, '1']);
  });

  test('a connection works again after the loss has ended, and answers are not mixed up', async () => {
    proxy.drop('replies');
    const lost = client.set('a', '1');
    expect(await answer(lost)).toBe('silence');
    await healed();
    expect(await client.get('a')).toBe('1');
    expect(await client.ping()).toBe('PONG');
  });

  test('delays each way', async () => {
    proxy.delay(60, 40);
    const begun = performance.now();
    const reply = client.set('a', '1');
    await sleep(30);
    expect(await direct.get('a')).toBeNull();
    await sleep(50);
    expect(await direct.get('a')).toBe('1');
    await reply;
    expect(performance.now() - begun).toBeGreaterThanOrEqual(99);
  });

  test('fates strike whole commands by their words', async () => {
    fate = ([name, key]) => {
      if (name === 'set' && key === 'late') return { request: { delayMs: 50 } };
      if (name === 'incr') return { request: { againAfterMs: 20 } };
      return name === 'set' && key === 'lost' ? { request: { lost: true } } : {};
    };
    const begun = performance.now();
    await client.set('late', '1');
    expect(performance.now() - begun).toBeGreaterThanOrEqual(49);
    expect(await client.incr('n')).toBe(1);
    await expect.poll(() => direct.get('n')).toBe('2');
    expect(await client.ping()).toBe('PONG');
    expect(await answer(client.set('lost', '1'))).toBe('silence');
    expect(await direct.get('lost')).toBeNull();
  });

  test('a half-open connection stays open and silent; a new one works', async () => {
    proxy.halfOpen();
    expect(await answer(client.ping())).toBe('silence');
    expect(client.status).toBe('ready');
    const fresh = new Redis(proxy.url);
    expect(await fresh.ping()).toBe('PONG');
    fresh.disconnect();
  });

  test('a cut is noticed at once', async () => {
    const ready = new Promise((resolve) => client.once('ready', resolve));
    proxy.cut();
    await ready;
    expect(await client.ping()).toBe('PONG');
  });
});

describe.skipIf(!canRunOnRedis('the lock through proxies', 'processes'))('the lock through five proxies', () => {
  test('is granted by the nodes that it reaches, and leaves no key where only answers get lost', async () => {
    await using provided = await provision({ nodes: 5, sources: ['processes'] });
    const proxies = await Promise.all(
      provided.urls.map((url) => NodeProxy.open({ host: '127.0.0.1', port: Number(new URL(url).port) })),
    );
    const clients = proxies.map((it) => new Redis(it.url, { disconnectTimeout: 1 }));
    try {
      await using redlock = new Redlock(clients, { retryCount: 0, votesWanted: 'all', nodeTimeoutMs: 1000 });
      await redlock.acquire('warm', 1_000).then((lock) => lock.release());
      proxies[0]?.drop('requests');
      proxies[1]?.drop('replies');
      const lock = await redlock.acquire('a', 30_000);
      expect(lock.votes.granted).toEqual([2, 3, 4]);
      const direct = provided.nodes.map((node) => node.client());
      const keys = () => Promise.all(direct.map((client) => client.exists('a')));
      expect(await keys()).toEqual([0, 1, 1, 1, 1]);
      await lock.release();
      await expect.poll(keys).toEqual([0, 0, 0, 0, 0]);
      // Now a majority answers nothing: the attempt fails, and its keys are gone all the same.
      proxies[2]?.drop('replies');
      await expect(redlock.acquire('b', 30_000)).rejects.toMatchObject({ code: 'ERR_LOCK_QUORUM_UNREACHABLE' });
      await expect.poll(() => Promise.all(direct.map((client) => client.exists('b')))).toEqual([0, 0, 0, 0, 0]);
    } finally {
      for (const client of clients) client.disconnect();
      await Promise.all(proxies.map((it) => it.close()));
    }
  });
});
