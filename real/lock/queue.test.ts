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
  async function pausing(settings: AcquireSettings, onHeld: () => void): Promise<{ readonly done: Promise<void> }> {
    const done = redlock.acquire('queue:a', TTL_MS, settings).then(async (lock) => {
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
});
