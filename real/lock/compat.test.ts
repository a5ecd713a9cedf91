import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { NodeProxy } from '../proxy/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import * as compat from './compat.js';
import { Redlock } from './index.js';

type Library = typeof compat;
const original: Library = createRequire(import.meta.url)('redlock5');

const LIBRARIES: readonly [string, Library][] = [
  ['node-redlock 5', original],
  ['compat', compat],
];
const QUICK = { retryCount: 2, retryDelay: 5, retryJitter: 2 };
const HOUR = 3_600_000;

describe.skipIf(!canRunOnRedis('the interface of node-redlock', 'processes'))(
  'with the interface of node-redlock',
  () => {
    let nodes: Provision;
    let clients: Redis[];
    let taken = 0;
    const fresh = (): string => `compat:${taken++}`;
    const onAll = (key: string) => Promise.all(clients.map((client) => client.get(key)));

    beforeAll(async () => {
      nodes = await provision({ nodes: 3, sources: ['processes'] });
      clients = nodes.nodes.map((node) => node.client());
    });
    afterAll(() => nodes?.stop());

    describe.each(LIBRARIES)('%s', (_, { default: Redlock, ExecutionError, Lock, ResourceLockedError }) => {
      test('acquires, extends and releases, also several resources; each extension is another lock', async () => {
        const redlock = new Redlock(clients);
        const resources = [fresh(), fresh()];
        const first = await redlock.acquire(resources, HOUR);
        expect(first).toBeInstanceOf(Lock);
        expect(first.redlock).toBe(redlock);
        expect(first.resources).toEqual(resources);
        await expect.poll(() => onAll(resources[1] ?? '')).toEqual(Array(3).fill(first.value));
        expect(Math.abs(first.expiration - Date.now() - HOUR * 0.99)).toBeLessThan(2000);
        const second = await first.extend(2 * HOUR);
        expect([second.value, first.expiration]).toEqual([first.value, 0]);
        expect(Math.abs(second.expiration - Date.now() - 2 * HOUR * 0.99)).toBeLessThan(2000);
        await expect.poll(async () => clients[2]?.pttl(resources[0] ?? '')).toBeGreaterThan(HOUR);
        const { attempts } = await second.release();
        expect(attempts.length).toBe(1);
        expect(second.expiration).toBe(0);
        await expect.poll(() => onAll(resources[0] ?? '')).toEqual([null, null, null]);
      });

      test('says of each attempt who voted against, and why', async () => {
        const redlock = new Redlock(clients, QUICK);
        const errors: Error[] = [];
        redlock.on('error', (error) => errors.push(error));
        const key = fresh();
        const lock = await redlock.acquire([key], HOUR);
        await expect.poll(() => onAll(key)).toEqual(Array(3).fill(lock.value));
        const error = await redlock.acquire([key], HOUR).catch((reason: unknown) => reason);
        if (!(error instanceof ExecutionError)) throw error;
        expect(error).toMatchObject({
          name: 'ExecutionError',
          message: 'The operation was unable to achieve a quorum during its retry window.',
        });
        expect(error.attempts.length).toBe(3);
        for (const { membershipSize, quorumSize, votesFor, votesAgainst } of await Promise.all(error.attempts)) {
          expect([membershipSize, quorumSize, votesFor.size]).toEqual([3, 2, 0]);
          expect(votesAgainst.size).toBeGreaterThan(1);
          for (const [client, against] of votesAgainst) {
            expect(clients).toContain(client);
            expect(against).toBeInstanceOf(ResourceLockedError);
            expect(against.message).toBe('The operation was applied to: 0 of the 1 requested resources.');
          }
        }
        expect(errors.filter((it) => it instanceof ResourceLockedError).length).toBeGreaterThanOrEqual(6);
        await lock.release();
      });

      test('goes on without a minority, whose votes are among the attempts', async () => {
        const redlock = new Redlock(clients, QUICK);
        const key = fresh();
        await clients[2]?.set(key, 'another');
        const lock = await redlock.acquire([key], HOUR);
        const longer = await lock.extend(2 * HOUR);
        await longer.release();
        await expect.poll(() => onAll(key)).toEqual([null, null, 'another']);
      });

      test('refuses to extend what has expired, and to release what is gone', async () => {
        const redlock = new Redlock(clients, QUICK);
        const expired = await redlock.acquire([fresh()], 30);
        await sleep(60);
        const error = await expired.extend(HOUR).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(ExecutionError);
        expect(error).toMatchObject({ message: 'Cannot extend an already-expired lock.', attempts: [] });
        await expect(expired.release()).rejects.toBeInstanceOf(ExecutionError);
        const lost = await redlock.acquire([fresh()], HOUR);
        await Promise.all(clients.map((client) => client.del(lost.resources)));
        await expect(lost.extend(HOUR)).rejects.toBeInstanceOf(ExecutionError);
        await expect(lost.release()).rejects.toBeInstanceOf(ExecutionError);
      });

      test('runs routines, extends meanwhile, and releases whatever they do', async () => {
        const redlock = new Redlock(clients, QUICK);
        const key = fresh();
        const settings = { automaticExtensionThreshold: 1000 };
        const result = await redlock.using([key], 1500, settings, async (signal) => {
          const value = await clients[0]?.get(key);
          await expect(redlock.acquire([key], HOUR, { retryCount: 0 })).rejects.toBeInstanceOf(ExecutionError);
          await sleep(1700);
          expect([signal.aborted, signal.error]).toEqual([false, undefined]);
          expect(await clients[0]?.get(key)).toBe(value);
          return 'done';
        });
        expect(result).toBe('done');
        await expect.poll(() => onAll(key)).toEqual([null, null, null]);
        let runs = 0;
        const failing = redlock.using([key], 10_000, async () => {
          runs++;
          throw new Error('mine');
        });
        await expect(failing).rejects.toThrow('mine');
        expect(runs).toBe(1);
        await expect.poll(() => onAll(key)).toEqual([null, null, null]);
      });

      test('refuses what node-redlock refuses, in its words', async () => {
        const redlock = new Redlock(clients);
        expect(() => new Redlock([])).toThrow('Redlock must be instantiated with at least one redis client.');
        const whole = 'Duration must be an integer value in milliseconds.';
        await expect(redlock.acquire([fresh()], 1.5)).rejects.toThrow(whole);
        await expect(redlock.using([fresh()], 1.5, async () => {})).rejects.toThrow(whole);
        await expect(redlock.using([fresh()], 500, async () => {})).rejects.toThrow('at least 100ms greater');
        expect(redlock.settings).toEqual({
          driftFactor: 0.01,
          retryCount: 10,
          retryDelay: 200,
          retryJitter: 100,
          automaticExtensionThreshold: 500,
        });
      });

      test('takes durations of ten thousand years, and keys last as long', async () => {
        const redlock = new Redlock(clients, QUICK);
        const lock = await redlock.acquire([fresh()], 3e14);
        const pttl = async () => clients[0]?.pttl(lock.resources[0] ?? '');
        await expect.poll(pttl).toBeGreaterThan(3e14 - HOUR);
        const longer = await lock.extend(9e14);
        await expect.poll(pttl).toBeGreaterThan(9e14 - HOUR);
        await longer.release();
      });

      test('fails as it does where no server is', async () => {
        const away = clients.map((client, index) => client.duplicate({ port: index + 1, retryStrategy: () => null }));
        for (const client of away) client.on('error', () => {});
        const redlock = new Redlock(away, QUICK);
        const error = await redlock.acquire([fresh()], 1000).catch((reason: unknown) => reason);
        if (!(error instanceof ExecutionError)) throw error;
        const stats = await Promise.all(error.attempts);
        expect(stats.length).toBe(3);
        for (const { votesAgainst } of stats) expect(votesAgainst.size).toBeGreaterThan(1);
        for (const { message } of stats.at(-1)?.votesAgainst.values() ?? [])
          expect(message).toBe('Connection is closed.');
      });
    });

    test('takes clients that node-redlock does not, and says that scripts cannot be replaced', async () => {
      const redlock = new compat.Redlock(nodes.urls.map((url) => createClient({ url })));
      const lock = await redlock.acquire([fresh()], HOUR);
      const stats = await lock.attempts.at(-1);
      expect(stats?.votesFor.size).toBeGreaterThan(1);
      await lock.release();
      expect(() => new compat.Redlock(clients, {}, { acquireScript: 'return 1' })).toThrow('cannot be replaced');
    });

    test('runs a routine once, also where it fails by another lock', async () => {
      const [key, taken] = [fresh(), fresh()];
      const redlock = new compat.Redlock(clients, QUICK);
      const other = new Redlock(clients, { retryCount: 0 });
      const holder = await other.acquire(taken, HOUR);
      let runs = 0;
      const failing = redlock.using([key], 10_000, async () => {
        runs++;
        await other.acquire(taken, HOUR);
      });
      await expect(failing).rejects.toMatchObject({ code: 'ERR_LOCK_CONTENDED' });
      expect(runs).toBe(1);
      await holder.release();
      await other.quit();
    });

    test('gives up a lock whose keys are gone, however often it may try', async () => {
      const redlock = new compat.Redlock(clients, { ...QUICK, retryCount: -1 });
      const lock = await redlock.acquire([fresh()], HOUR);
      await Promise.all(clients.map((client) => client.del(lock.resources)));
      await expect(lock.extend(HOUR)).rejects.toBeInstanceOf(compat.ExecutionError);
    });

    test.each([1, 2])('has cleaned up when it gives up a lock of %d resources', async (count) => {
      const { hostname: host, port } = new URL(nodes.urls[0] ?? '');
      const proxy = await NodeProxy.open({ host, port: Number(port) });
      proxy.delay(50, 0);
      const own = nodes.nodes.slice(1).map((node) => node.client());
      const redlock = new compat.Redlock([new Redis(proxy.url), ...own], { retryCount: 0 });
      const resources = Array.from({ length: count }, fresh);
      for (const [index, client] of clients.entries())
        if (index > 0) await client.set(resources[0] ?? '', `of n${index}`);
      // How often the slow node was asked to set or to delete something.
      const asked = async () => (await clients[0]?.info('commandstats'))?.match(/^cmdstat_(set|evalsha):calls=\d+/gm);
      const before = await asked();
      await expect(redlock.acquire(resources, HOUR)).rejects.toBeInstanceOf(compat.ExecutionError);
      const after = await asked();
      expect(after).not.toEqual(before);
      expect(await Promise.all(resources.map((key) => clients[0]?.get(key)))).toEqual(resources.map(() => null));
      await redlock.quit();
      expect(await asked()).toEqual(after);
      await proxy.close();
    });

    test('closes the clients with it, as node-redlock does', async () => {
      const own = nodes.nodes.map((node) => node.client());
      const redlock = new compat.Redlock(own);
      await (await redlock.acquire([fresh()], HOUR)).release();
      await redlock.quit();
      await expect.poll(() => own.map(({ status }) => status)).toEqual(['end', 'end', 'end']);
      const connected = createClient({ url: nodes.urls[0] ?? '' });
      await connected.connect();
      await new compat.Redlock([connected, createClient({ url: nodes.urls[1] ?? '' })]).quit();
      expect(connected.isOpen).toBe(false);
    });
  },
);
