import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { DialectServers } from '../testing/dialect-servers.js';
import { type Lock, Redlock } from './index.js';

const TTL_MS = 100_000;
const KEYS = ['a', 'b'];
const SETTINGS = { retryCount: 0, nodeTimeoutMs: 5_000, votesWanted: 'all', healing: true } as const;

/** Extends until all has come in that is waited for: the votes behind a quorum, or one of a node that has to be connected again. */
async function extendWhile(lock: Lock, isOpen: () => boolean): Promise<void> {
  do {
    await lock.extend(TTL_MS);
    await sleep(20);
  } while (isOpen());
}

describe.skipIf(!canRunOnRedis('healing extensions', 'processes'))('an extension that heals, on real nodes', () => {
  let provided: Provision;
  beforeEach(async () => {
    provided = await provision({ nodes: 5, sources: ['processes'] });
  });
  afterEach(() => provided.stop());

  test.each([['one key', ['a']] as const, ['two keys', KEYS] as const])(
    'a lock on %s outlives a rolling restart of nodes without persistence',
    async (_, keys) => {
      const clients = provided.nodes.map((node) => node.client());
      const redlock = new Redlock(clients, SETTINGS);
      const lock = await redlock.acquire(keys, TTL_MS);
      for (const node of provided.nodes) {
        await node.kill();
        await node.restart({ keepData: false });
        await extendWhile(lock, () => lock.votes.granted.length < 5);
      }
      await expect(redlock.acquire('a', TTL_MS)).rejects.toMatchObject({ code: 'ERR_LOCK_CONTENDED' });
      expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
      await redlock.quit();
      expect(await Promise.all(clients.map((client) => client.dbsize()))).toEqual([0, 0, 0, 0, 0]);
    },
  );

  test('without it a lock is lost once a quorum has been restarted', async () => {
    const redlock = new Redlock(
      provided.nodes.map((node) => node.client()),
      { ...SETTINGS, healing: false },
    );
    const lock = await redlock.acquire('a', TTL_MS);
    for (const node of provided.nodes.slice(0, 3)) {
      await node.kill();
      await node.restart({ keepData: false });
    }
    await expect(lock.extend(TTL_MS)).rejects.toMatchObject({ operation: 'extend' });
    await redlock.quit();
  });

  test('a node that was away as the lock was acquired votes, and is released', async () => {
    const [first] = provided.nodes;
    const clients = provided.nodes.map((node) => node.client());
    const redlock = new Redlock(clients, SETTINGS);
    await (await redlock.acquire('warm', TTL_MS)).release();
    await first?.kill();
    const lock = await redlock.acquire('a', TTL_MS);
    expect(lock.votes.granted).toEqual([1, 2, 3, 4]);
    await first?.restart({ keepData: false });
    await extendWhile(lock, () => lock.votes.granted.length < 5);
    expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
    await redlock.quit();
    expect(await Promise.all(clients.map((client) => client.dbsize()))).toEqual([0, 0, 0, 0, 0]);
  });

  test('the key of another client is not touched', async () => {
    const clients = provided.nodes.map((node) => node.client());
    await clients[0]?.set('a', 'of another', 'PX', TTL_MS);
    const redlock = new Redlock(clients, SETTINGS);
    const lock = await redlock.acquire('a', TTL_MS);
    await extendWhile(lock, () => lock.votes.refused.length === 0);
    expect(lock.votes.refused).toEqual([0]);
    await redlock.quit();
    expect(await clients[0]?.get('a')).toBe('of another');
  });
});

test('where servers compare, an extension that heals is a script, and the release is none', async () => {
  await using servers = await DialectServers.start('redis 8.4', 3);
  const redlock = new Redlock([...servers.urls], { ...SETTINGS, retryCount: 10 });
  const lock = await redlock.acquire('a', TTL_MS);
  servers.sent.splice(0);
  await lock.extend(TTL_MS);
  await lock.release();
  await redlock.quit();
  const count = (name: string) => servers.sent.filter((it) => it === name).length;
  expect(count('DELEX')).toBeGreaterThan(0);
  expect([count('EVALSHA'), count('PEXPIRE')]).toEqual([count('DELEX'), 0]);
});
