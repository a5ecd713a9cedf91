import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { Lock, LockError, type LockSignal, Redlock } from './index.js';

/** The interface of the lock, on ioredis-mock: these need no Redis and always run. */
describe('the surface, on ioredis-mock', () => {
  let nodes: Provision;
  let redlock: Redlock;
  let taken = 0;
  const fresh = () => `surface:${taken++}`;

  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['mock'] });
    redlock = new Redlock(
      nodes.nodes.map((node) => node.client()),
      { retryCount: 1, retryDelay: 5, retryJitter: 1 },
    );
  });
  afterAll(async () => {
    await redlock.quit();
    await nodes.stop();
  });

  test('acquires, extends and releases as with node-redlock', async () => {
    const resource = fresh();
    let lock = await redlock.acquire([resource], 30_000);
    expect(lock).toBeInstanceOf(Lock);
    expect(lock.resources).toEqual([resource]);
    expect(lock.value).toMatch(/^[0-9a-f]{32}$/);
    expect(lock.expiration).toBeGreaterThan(Date.now());
    lock = await lock.extend(5000);
    lock = await redlock.extend(lock, 6000);
    expect(lock.remaining()).toBeGreaterThan(4000);
    const report = await redlock.release(lock);
    expect(report.released).toBeGreaterThanOrEqual(3);
    expect(report.unreachable).toBe(0);
    expect(lock.remaining()).toBe(0);
    expect(await lock.release()).toEqual(report);
  });

  test('excludes others, and says who refused', async () => {
    const resource = fresh();
    await using held = await redlock.acquire(resource, 30_000);
    const error = await redlock.acquire(resource, 30_000).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({ name: 'LockError', code: 'ERR_LOCK_CONTENDED', operation: 'acquire' });
    expect((error as LockError).votes?.refused.length).toBeGreaterThanOrEqual(3);
    expect((error as LockError).message).toMatch(/^surface:\d+ is held by others, in 2 attempts: 3 refused/);
    expect(held.remaining()).toBeGreaterThan(0);
  });

  test('locks several resources together or none of them', async () => {
    const [a, b, c] = [fresh(), fresh(), fresh()];
    await using held = await redlock.acquire([b], 30_000);
    await expect(redlock.acquire([a, b, c], 30_000)).rejects.toThrow(LockError);
    await using free = await redlock.acquire([a, c], 30_000);
    expect([held.remaining() > 0, free.remaining() > 0]).toEqual([true, true]);
  });

  test('runs a routine under a lock, with settings or without', async () => {
    const resource = fresh();
    const result = await redlock.using([resource], 30_000, async (signal, lock) => {
      expectTypeOf(signal).toEqualTypeOf<LockSignal>();
      expect(signal.aborted).toBe(false);
      expect(signal.error).toBeUndefined();
      await expect(redlock.acquire(resource, 100, { retryCount: 0 })).rejects.toThrow(LockError);
      return lock.value;
    });
    expect(result).toMatch(/^[0-9a-f]{32}$/);
    expect(await redlock.using([resource], 30_000, { retryCount: 0 }, async () => 'again')).toBe('again');
    await expect(redlock.using([resource], 30_000, () => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
    await (await redlock.acquire(resource, 30_000, { retryCount: 0 })).release();
  });

  test('refuses arguments that make no lock', async () => {
    const codeOf = (promise: Promise<unknown>) => promise.catch((error: LockError) => [error.code, error.message]);
    expect(await codeOf(redlock.acquire([], 30_000))).toEqual([
      'ERR_LOCK_CONFIG',
      'A lock needs at least one resource.',
    ]);
    expect(await codeOf(redlock.acquire([''], 30_000))).toEqual([
      'ERR_LOCK_CONFIG',
      'A resource must be a string that is not empty.',
    ]);
    expect(await codeOf(redlock.acquire('a', -1))).toMatchObject(['ERR_LOCK_CONFIG', /-1/]);
    await using lock = await redlock.acquire(fresh(), 30_000);
    expect(await codeOf(lock.extend(0.5))).toMatchObject(['ERR_LOCK_CONFIG', /0\.5/]);
  });

  test('says how many nodes with data loss a lock tolerates, which votesWanted raises', async () => {
    await using lock = await redlock.acquire(fresh(), 30_000, { votesWanted: 'all' });
    expect(lock.votes).toEqual({
      granted: [0, 1, 2, 3, 4],
      refused: [],
      failed: [],
      unanswered: [],
      quorum: 3,
      nodes: 5,
    });
    expect(lock.toleratedDataLoss).toBe(2);
  });

  test('limits extensions', async () => {
    await using lock = await redlock.acquire(fresh(), 30_000, { maxExtensions: 1 });
    await lock.extend(30_000);
    await expect(lock.extend(30_000)).rejects.toMatchObject({
      code: 'ERR_LOCK_CONFIG',
      message: expect.stringContaining('maxExtensions is 1'),
    });
  });

  test('lets extensions that are asked for at once take turns', async () => {
    await using lock = await redlock.acquire(fresh(), 30_000);
    await Promise.all([lock.extend(2000), lock.extend(3000), lock.extend(4000)]);
    expect(lock.remaining()).toBeGreaterThan(3000);
  });

  test('refuses to extend a lock that was released', async () => {
    const lock = await redlock.acquire(fresh(), 30_000);
    await lock.release();
    await expect(lock.extend(30_000)).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', operation: 'extend' });
  });

  test('is not to be used after quit', async () => {
    const other = new Redlock(nodes.nodes.map((node) => node.client()));
    await other.quit();
    await expect(other.acquire('a', 1000)).rejects.toMatchObject({ code: 'ERR_LOCK_CONFIG' });
  });
});
