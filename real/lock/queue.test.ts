import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type AcquireSettings, Redlock } from './index.js';
import { WaitingQueue } from './queue.js';

const DAY_MS = 86_400_000;
const TTL_MS = 100_000;

test('the one that has waited longest is first, for each of its resources', () => {
  const queue = new WaitingQueue();
  const woken: string[] = [];
  const waiting = (name: string, resources: string[], isPausing = true) => ({
    resources,
    hurry: () => isPausing && woken.push(name) > 0,
  });
  const [one, two, three] = [waiting('1', ['a', 'b']), waiting('2', ['b'], false), waiting('3', ['b', 'c'])];
  for (const it of [one, two, three, one]) queue.join(it);
  expect([one, two, three].map((it) => queue.isFirst(it))).toEqual([true, false, false]);
  queue.wake(['c', 'd']);
  queue.leave(one);
  expect([one, two, three].map((it) => queue.isFirst(it))).toEqual([false, true, false]);
  // The second does not pause.
  queue.wake(['a', 'b']);
  expect(woken).toEqual(['3', '3']);
});

test('a new one overtakes who waits for the same and nothing else, unless that could not be woken', () => {
  const queue = new WaitingQueue();
  const waiting = (resources: string[], isPausing = true) => ({ resources, hurry: () => isPausing });
  const both = waiting(['a', 'c']);
  for (const it of [waiting(['a'], false), waiting(['b']), both]) queue.join(it);
  expect([['a'], ['b', 'd'], ['c'], ['a', 'c'], ['d']].map((it) => queue.wouldOvertake(it))).toEqual(
    [true, true, false, true, false], // Who waits for c needs a as well.
  );
  queue.leave(both);
  queue.wake(['a', 'b']);
  expect([['a'], ['a'], ['b']].map((it) => queue.wouldOvertake(it))).toEqual([false, true, true]);
});

describe.skipIf(!canRunOnRedis('waiting for a lock'))('waiting for a lock of the same process', () => {
  let provided: Provision;
  let redlock: Redlock;
  beforeEach(async () => {
    provided = await provision({ nodes: 3 });
    redlock = new Redlock(
      provided.nodes.map((node) => node.client()),
      { retryDelay: DAY_MS, retryJitter: 0, nodeTimeoutMs: 5_000 },
    );
  });
  afterEach(async () => {
    await redlock.quit();
    await provided.stop();
  });

  /** An acquisition that pauses: its answers are read before those of the look. */
  async function pausing(
    settings: AcquireSettings,
    onHeld: () => void,
    resources = ['queue:a'],
  ): Promise<{ readonly done: Promise<void> }> {
    const done = redlock.acquire(resources, TTL_MS, settings).then(async (lock) => {
      onHeld();
      await lock.release();
    });
    done.catch(() => {});
    await redlock.inspect('queue:a');
    return { done };
  }

  test.each([-1, 10])(
    'ends its pause when that is released, in the order of the calls (retryCount %i)',
    async (retryCount) => {
      const order: number[] = [];
      const holder = await redlock.acquire('queue:a', TTL_MS);
      const waiting: Promise<void>[] = [];
      for (const name of [1, 2, 3]) {
        waiting.push((await pausing({ retryCount }, () => order.push(name))).done);
      }
      await holder.release();
      await Promise.all(waiting);
      expect(order).toEqual([1, 2, 3]);
    },
  );

  test('goes to the next if the first gave up', async () => {
    const abort = new AbortController();
    const holder = await redlock.acquire('queue:a', TTL_MS);
    const first = await pausing({ retryCount: -1, signal: abort.signal }, () => {});
    const second = await pausing({ retryCount: -1 }, () => {});
    abort.abort();
    await expect(first.done).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' });
    await holder.release();
    await second.done;
  });

  test('keeps a newcomer behind those that wait, even if it would get the lock at once', async () => {
    const order: number[] = [];
    const holder = await redlock.acquire('queue:a', TTL_MS);
    const first = await pausing({ retryCount: -1 }, () => order.push(1));
    for (const node of provided.nodes) await node.client().del('queue:a');
    const others = [await pausing({ retryCount: -1 }, () => order.push(2)), await pausing({}, () => order.push(3))];
    expect(order).toEqual([]);
    await holder.release();
    await Promise.all([first, ...others].map(({ done }) => done));
    expect(order).toEqual([1, 2, 3]);
  });

  test('keeps nobody behind one that waits for another resource besides', async () => {
    const holder = await redlock.acquire('queue:b', TTL_MS);
    const both = await pausing({ retryCount: -1 }, () => {}, ['queue:a', 'queue:b']);
    await (await redlock.acquire('queue:a', TTL_MS)).release();
    await holder.release();
    await both.done;
  });

  test.each([0, 1])('leaves a newcomer an attempt (retryCount %i)', async (retryCount) => {
    const holder = await redlock.acquire('queue:a', TTL_MS);
    const first = await pausing({ retryCount: -1 }, () => {});
    const newcomer = redlock.acquire('queue:a', TTL_MS, { retryCount, retryDelay: 20 });
    await expect(newcomer).rejects.toMatchObject({
      code: 'ERR_LOCK_CONTENDED',
      message: expect.stringContaining('in 1 attempt:'),
    });
    await holder.release();
    await first.done;
  });

  test('ends for a newcomer that gives up before its first attempt', async () => {
    const abort = new AbortController();
    const attempts: number[] = [];
    redlock.on('failed', (notice) => attempts.push(notice.attempts));
    const holder = await redlock.acquire('queue:a', TTL_MS);
    const first = await pausing({ retryCount: -1 }, () => {});
    const newcomer = await pausing({ retryCount: -1, signal: abort.signal }, () => {});
    const last = await pausing({ retryCount: -1 }, () => {});
    abort.abort();
    await expect(newcomer.done).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' });
    expect(attempts).toEqual([0]);
    await holder.release();
    await Promise.all([first.done, last.done]);
  });
});
