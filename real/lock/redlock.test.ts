import { getEventListeners, once } from 'node:events';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { compareFencingTokens, type FencingToken, LockError, Redlock } from './index.js';

const prefix = `lockstep:test:${process.pid}`;
let taken = 0;
const fresh = () => `${prefix}:${taken++}`;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!canRunOnRedis('the lock on five real nodes'))('the lock on five real nodes', () => {
  let nodes: Provision;
  let clients: Redis[];
  let redlock: Redlock;
  let rival: Redlock;

  beforeAll(async () => {
    nodes = await provision({ nodes: 5 });
    clients = nodes.nodes.map((node) => node.client());
    // All votes are looked at, also on a busy machine.
    redlock = new Redlock(clients, { nodeTimeoutMs: 1000 });
    rival = new Redlock(clients, { retryCount: 0, nodeTimeoutMs: 1000 });
  });
  afterAll(async () => {
    await Promise.all([redlock?.quit(), rival?.quit()]);
    await nodes?.stop();
  });

  /** What the nodes have under `key`, without duplicates. */
  const valuesOf = async (key: string) => [...new Set(await Promise.all(clients.map((client) => client.get(key))))];

  test('the first lock asked of fresh connections is granted, not refused for want of nodes', async () => {
    await using early = new Redlock(clients, { retryCount: 0, nodeTimeoutMs: 2000 });
    await using lock = await early.acquire(fresh(), 5000, { votesWanted: 'all' });
    expect(lock.votes.granted).toEqual([0, 1, 2, 3, 4]);
  });

  test('acquire sets the token with the TTL, extend lengthens it, release deletes it', async () => {
    const resource = fresh();
    const lock = await redlock.acquire(resource, 5000, { votesWanted: 'all' });
    expect(await valuesOf(resource)).toEqual([lock.value]);
    expect(lock.remaining()).toBeGreaterThan(4000);
    expect(lock.remaining()).toBeLessThanOrEqual(4948);
    await lock.extend(60_000);
    expect(lock.remaining()).toBeGreaterThan(50_000);
    expect(await clients[0]?.pttl(resource)).toBeGreaterThan(50_000);
    const report = await lock.release();
    expect(report.released).toBeGreaterThanOrEqual(3);
    expect(report.released + report.unanswered).toBe(5);
    expect(await valuesOf(resource)).toEqual([null]);
  });

  test('late votes behind a lock that is held are counted', async () => {
    await using lock = await redlock.acquire(fresh(), 5000);
    while (lock.votes.unanswered.length > 0) await sleep(1);
    expect(lock.votes.granted).toEqual([0, 1, 2, 3, 4]);
    expect(lock.toleratedDataLoss).toBe(2);
  });

  test('two clients exclude each other', async () => {
    const resource = fresh();
    let inside = 0;
    let most = 0;
    let entries = 0;
    const worker = async (own: Redlock) => {
      for (let turn = 0; turn < 3; turn++) {
        await own.using([resource], 5000, { retryCount: -1, retryDelay: 10, retryJitter: 10 }, async () => {
          most = Math.max(most, ++inside);
          await sleep(2);
          inside--;
          entries++;
        });
      }
    };
    await Promise.all(Array.from({ length: 10 }, (_, index) => worker(index % 2 === 0 ? redlock : rival)));
    expect([most, entries]).toEqual([1, 30]);
    await sleep(20);
    expect(await valuesOf(resource)).toEqual([null]);
  });

  test('a lock on several resources is all or nothing, and leaves no key where it failed', async () => {
    const [a, b] = [fresh(), fresh()];
    await using held = await redlock.acquire(b, 5000);
    await expect(rival.acquire([a, b], 5000)).rejects.toMatchObject({ code: 'ERR_LOCK_CONTENDED' });
    await sleep(20);
    expect(await valuesOf(a)).toEqual([null]);
    expect(await valuesOf(b)).toEqual([held.value]);
  });

  test('await using releases at the end of the block, also when it throws', async () => {
    const resource = fresh();
    const block = async () => {
      await using lock = await redlock.acquire(resource, 5000);
      expect((await valuesOf(resource)).includes(lock.value)).toBe(true);
      throw new Error('mine');
    };
    await expect(block()).rejects.toThrow('mine');
    expect(await valuesOf(resource)).toEqual([null]);
  });

  test('using extends the lock while the routine runs', async () => {
    const resource = fresh();
    const outcome = await redlock.using([resource], 1500, async (signal, lock) => {
      await sleep(2500);
      await expect(rival.acquire(resource, 1500)).rejects.toMatchObject({ code: 'ERR_LOCK_CONTENDED' });
      return [signal.aborted, lock.remaining() > 0];
    });
    expect(outcome).toEqual([false, true]);
    expect(await valuesOf(resource)).toEqual([null]);
  });

  test('the signal aborts at the claimed expiry, before the keys are gone, and not on a release', async () => {
    const resource = fresh();
    const lock = await redlock.acquire(resource, 300);
    const { signal } = lock;
    const from = performance.now();
    await once(signal, 'abort');
    expect(performance.now() - from).toBeLessThan(1000);
    expect(lock.remaining()).toBe(0);
    expect(signal.reason).toBeInstanceOf(LockError);
    expect(signal.reason).toMatchObject({ code: 'ERR_LOCK_LOST', operation: 'hold' });
    expect(signal.error).toBe(signal.reason);
    await expect(lock.extend(300)).rejects.toMatchObject({ code: 'ERR_LOCK_LOST' });
    // Not thrown although it had expired.
    await sleep(50);
    expect(await lock.release()).toMatchObject({ released: 0, unreachable: 0 });

    const released = await redlock.acquire(resource, 1000);
    const kept = released.signal;
    await released.release();
    await sleep(1100);
    expect(kept.aborted).toBe(false);
  });

  test('remaining decides, even while the event loop keeps the timer waiting', async () => {
    const lock = await redlock.acquire(fresh(), 100);
    const { signal } = lock;
    const until = performance.now() + 150;
    while (performance.now() < until) {
      // Blocks the loop.
    }
    expect(signal.aborted).toBe(false);
    expect(lock.remaining()).toBe(0);
    expect(signal.aborted).toBe(true);
    await lock.release();
  });

  test('a TTL above 2^31 ms is held, not lost at once', async () => {
    const lock = await redlock.acquire(fresh(), 2 ** 32);
    const { signal } = lock;
    await sleep(50);
    expect(signal.aborted).toBe(false);
    expect(lock.remaining()).toBeGreaterThan(2 ** 31);
    expect((await lock.release()).unreachable).toBe(0);
  });

  test('aborting ends a contended acquisition at once and leaves nothing behind', async () => {
    const resource = fresh();
    const held = await redlock.acquire(resource, 5000);
    const abort = new AbortController();
    const waiting = rival.acquire(resource, 5000, { retryCount: -1, retryDelay: 20_000, signal: abort.signal });
    await sleep(50);
    const from = performance.now();
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED', cause: { message: 'enough' } });
    expect(performance.now() - from).toBeLessThan(1000);
    expect(getEventListeners(abort.signal, 'abort')).toEqual([]);
    await expect(rival.acquire(resource, 5000, { signal: abort.signal })).rejects.toMatchObject({
      code: 'ERR_LOCK_ABORTED',
    });
    await held.release();
    expect(await valuesOf(resource)).toEqual([null]);
  });

  test('a signal that never aborts is left without listeners', async () => {
    const { signal } = new AbortController();
    await (await redlock.acquire(fresh(), 5000, { signal })).release();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('tryAcquire does not wait for its turn', async () => {
    const resource = fresh();
    await using held = await redlock.acquire(resource, 5000);
    const from = performance.now();
    expect(await redlock.tryAcquire(resource, 5000)).toBeNull();
    expect(performance.now() - from).toBeLessThan(150);
    await held.release();
    const lock = await redlock.tryAcquire(resource, 5000);
    expect(lock?.remaining()).toBeGreaterThan(0);
    await lock?.release();
    await expect(redlock.tryAcquire('', 5000)).rejects.toMatchObject({ code: 'ERR_LOCK_CONFIG' });
  });

  test('inspect tells who holds a resource, and changes nothing', async () => {
    const resource = fresh();
    expect(await redlock.inspect(resource)).toMatchObject({ state: 'free', value: null, remainingMs: 0, holding: [] });
    const lock = await redlock.acquire(resource, 5000, { votesWanted: 'all' });
    const seen = await rival.inspect(resource);
    expect(seen).toMatchObject({ state: 'held', value: lock.value, empty: [], other: [] });
    expect(seen.holding.length).toBeGreaterThanOrEqual(3);
    expect(seen.remainingMs).toBeGreaterThan(lock.remaining());
    expect(seen.remainingMs).toBeLessThanOrEqual(5000);
    expect(await valuesOf(resource)).toEqual([lock.value]);
    await lock.release();
    // A split vote, as of three clients at once.
    await Promise.all(clients.slice(0, 4).map((client, i) => client.set(resource, `c${i % 2}`, 'PX', 1000)));
    expect(await rival.inspect(resource)).toMatchObject({
      state: 'unclear',
      value: null,
      holding: [],
      empty: [4],
      other: [0, 1, 2, 3],
    });
    await Promise.all(clients.map((client) => client.del(resource)));
    await expect(redlock.inspect('')).rejects.toMatchObject({ code: 'ERR_LOCK_CONFIG' });
  });

  test.each([-3_600_000, 3_600_000])(
    'a step of the wall clock by %d ms moves no validity, held or asked for',
    async (step) => {
      const resource = fresh();
      const from = performance.now();
      const acquiring = redlock.acquire(resource, 5000);
      const { now } = Date;
      Date.now = () => now() + step;
      try {
        const lock = await acquiring;
        const most = 5000 - (performance.now() - from);
        expect(lock.remaining()).toBeLessThanOrEqual(5000);
        expect(lock.remaining()).toBeGreaterThan(most - 200);
        await lock.extend(6000);
        expect(lock.remaining()).toBeGreaterThan(5000);
        expect(lock.remaining()).toBeLessThanOrEqual(6000);
        Date.now = now;
        expect(lock.remaining()).toBeGreaterThan(5000);
        expect(lock.signal.aborted).toBe(false);
        expect(await lock.release()).toMatchObject({ alreadyGone: 0 });
      } finally {
        Date.now = now;
      }
    },
  );

  test('fencing tokens grow from lock to lock, for every holder and every resource', async () => {
    await redlock.recoverFencing(0);
    const tokens: FencingToken[] = [];
    for (let i = 0; i < 12; i++) {
      const own = i % 2 === 0 ? redlock : rival;
      await using lock = await own.acquire(fresh(), 5000, { fencing: true });
      if (lock.fencingToken !== null) tokens.push(lock.fencingToken);
    }
    expect(tokens.length).toBe(12);
    for (const [i, token] of tokens.entries()) {
      const before = tokens[i - 1];
      if (before !== undefined) expect(compareFencingTokens(token, before)).toBeGreaterThan(0);
    }
    await using plain = await redlock.acquire(fresh(), 5000);
    expect(plain.fencingToken).toBeNull();
  });

  test('timers and sockets are as many after a hundred locks as before', async () => {
    const count = () => process.getActiveResourcesInfo().sort().join();
    const some = async () => {
      const abort = new AbortController();
      const lock = await redlock.acquire(fresh(), 5000, { signal: abort.signal });
      await lock.extend(6000);
      await redlock.tryAcquire(lock.resources, 5000);
      await redlock.inspect(lock.resources[0] ?? '');
      await lock.release();
    };
    await some();
    await sleep(100);
    const before = count();
    for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 10 }, some));
    await sleep(100);
    expect(count()).toBe(before);
  });

  test('scripts that a node has lost are sent again', async () => {
    const [a, b] = [fresh(), fresh()];
    await Promise.all(clients.map((client) => client.script('FLUSH')));
    const lock = await redlock.acquire([a, b], 5000);
    await lock.extend(6000);
    await Promise.all(clients.map((client) => client.script('FLUSH')));
    expect(await lock.release()).toMatchObject({ unreachable: 0 });
    await sleep(20);
    expect([await valuesOf(a), await valuesOf(b)]).toEqual([[null], [null]]);
  });

  test('a client of any options serves: no queue, no time-outs, no reply formats of its own', async () => {
    const odd = nodes.nodes.map((node) =>
      node.client({
        keyPrefix: `${prefix}:odd:`,
        stringNumbers: true,
        enableOfflineQueue: true,
        maxRetriesPerRequest: null,
        commandTimeout: 1,
        enableAutoPipelining: true,
        lazyConnect: true,
      }),
    );
    await using own = new Redlock(odd, { nodeTimeoutMs: 2000 });
    const lock = await own.acquire(['a', 'b'], 5000, { votesWanted: 'all' });
    expect(await valuesOf(`${prefix}:odd:a`)).toEqual([lock.value]);
    await lock.extend(6000);
    expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
  });
});
