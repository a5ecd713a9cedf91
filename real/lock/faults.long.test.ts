import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, type ProvisionedNode, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { CLIENT_KINDS, type ClientKind, type MadeClient } from '../testing/client-kinds.js';
import { LockError, Redlock } from './index.js';

const TTL_MS = 10_000;
/** Far above what an acquisition takes, and far below what waiting for a bad node would take. */
const NODE_TIMEOUT_MS = 1000;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function msOf(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

describe.skipIf(!canRunOnRedis('faults of real nodes', 'processes'))('faults of real nodes', () => {
  describe.each(CLIENT_KINDS)('with clients of %s', (_, make) => faultsWith(make));
});

function faultsWith(make: ClientKind): void {
  let made: MadeClient[];
  let provided: Provision;
  let clients: Redis[];
  let redlock: Redlock;
  let nodes: readonly ProvisionedNode[];
  let problems: Error[];

  beforeEach(async () => {
    provided = await provision({ nodes: 5, sources: ['processes'] });
    nodes = provided.nodes;
    clients = nodes.map((node) => node.client());
    made = await Promise.all(provided.urls.map(make));
    redlock = new Redlock(
      made.map(({ client }) => client),
      { retryCount: 0, nodeTimeoutMs: NODE_TIMEOUT_MS },
    );
    problems = [];
    redlock.on('error', (error) => problems.push(error));
    // On a busy machine the first connections take longer than an acquisition waits for them.
    for (let voters = 0; voters < nodes.length; ) {
      const lock = await redlock.acquire('warm', TTL_MS, { votesWanted: 'all', retryCount: 20 });
      voters = lock.votes.granted.length;
      await lock.release();
    }
  });
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.resume().catch(() => undefined)));
    await redlock.quit();
    for (const { close } of made) close();
    await provided.stop();
  });

  const onAll = async (key: string) => Promise.all(clients.map((client) => client.get(key)));
  const on = (some: readonly number[], act: (node: ProvisionedNode) => Promise<void>) =>
    Promise.all(nodes.filter((_, index) => some.includes(index)).map(act));

  test('one killed and one stopped: acquired, extended and released without waiting for them', async () => {
    await nodes[0]?.kill();
    await nodes[1]?.pause();
    for (let i = 0; i < 10; i++) {
      const ms = await msOf(async () => {
        const lock = await redlock.acquire('a', TTL_MS);
        await lock.extend(TTL_MS);
        expect(lock.votes.granted).toEqual([2, 3, 4]);
        const report = await lock.release();
        expect(report.released).toBe(3);
        expect(report.unreachable + report.unanswered).toBe(2);
      });
      expect(ms).toBeLessThan(NODE_TIMEOUT_MS / 2);
    }
  });

  test('three stopped: fails as unreachable within its bound, and the late keys are released', async () => {
    await on([0, 1, 2], (node) => node.pause());
    const from = performance.now();
    const error = await redlock
      .acquire('a', TTL_MS, { nodeTimeoutMs: 200, retryCount: 2, retryDelay: 100, retryJitter: 50 })
      .catch((reason: unknown) => reason);
    // 3 attempts of 200 ms and 2 pauses of at most 150 ms, with room for a slow machine.
    expect(performance.now() - from).toBeLessThan(5000);
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({
      code: 'ERR_LOCK_QUORUM_UNREACHABLE',
      operation: 'acquire',
      votes: { granted: [3, 4], failed: [0, 1, 2], quorum: 3 },
    });
    // The stopped nodes have the SETs in their sockets and apply them now: late successes of failed attempts.
    await on([0, 1, 2], (node) => node.resume());
    await sleep(100);
    await expect.poll(() => onAll('a'), { timeout: 5000 }).toEqual([null, null, null, null, null]);
  });

  test('three killed: fails as unreachable at once, with the reason in the error event', async () => {
    await on([0, 1, 2], (node) => node.kill());
    // Where there are requests and no connection, it shows when something is asked.
    while (problems.length === 0) {
      await redlock.inspect('a');
      await sleep(1);
    }
    let error: unknown;
    const ms = await msOf(async () => {
      error = await redlock.acquire('a', TTL_MS).catch((reason: unknown) => reason);
    });
    expect(ms).toBeLessThan(NODE_TIMEOUT_MS / 2);
    expect(error).toMatchObject({ code: 'ERR_LOCK_QUORUM_UNREACHABLE' });
    await expect.poll(() => Promise.all([clients[3]?.get('a'), clients[4]?.get('a')])).toEqual([null, null]);
  });

  test('a node that was restarted votes again', async () => {
    await nodes[4]?.kill();
    await expect(redlock.acquire('a', TTL_MS).then((lock) => lock.release())).resolves.toMatchObject({ released: 3 });
    await nodes[4]?.restart({ keepData: false });
    await expect
      .poll(
        async () => {
          await using lock = await redlock.acquire('a', TTL_MS, { votesWanted: 'all' });
          return lock.votes.granted;
        },
        { timeout: 10_000 },
      )
      .toEqual([0, 1, 2, 3, 4]);
  });

  test('the signal aborts at the claimed expiry though no node answers, and using ends', async () => {
    const from = performance.now();
    const outcome = await redlock.using(['a'], 500, { nodeTimeoutMs: 50 }, async (signal, lock) => {
      await on([0, 1, 2, 3, 4], (node) => node.pause());
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      const { code, cause } = signal.reason;
      return [code, cause.code, lock.remaining()];
    });
    expect(performance.now() - from).toBeLessThan(5000);
    expect(outcome).toEqual(['ERR_LOCK_LOST', 'ERR_LOCK_QUORUM_UNREACHABLE', 0]);
  });

  test('aborting while nodes hang answers at once, and the clean-up reaches them later', async () => {
    await on([0, 1, 2], (node) => node.pause());
    const abort = new AbortController();
    const waiting = redlock.acquire('a', TTL_MS, { signal: abort.signal });
    await sleep(20);
    const ms = await msOf(async () => {
      abort.abort();
      await expect(waiting).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED', cause: abort.signal.reason });
    });
    expect(ms).toBeLessThan(NODE_TIMEOUT_MS / 2);
    await on([0, 1, 2], (node) => node.resume());
    await sleep(100);
    await expect.poll(() => onAll('a'), { timeout: 5000 }).toEqual([null, null, null, null, null]);
  });

  test('an extension refused by a quorum leaves the lock its validity; its keys gone, it is lost', async () => {
    const lock = await redlock.acquire('a', TTL_MS);
    await on([0, 1, 2], (node) => node.pause());
    await expect(lock.extend(TTL_MS * 2)).rejects.toMatchObject({ code: 'ERR_LOCK_QUORUM_UNREACHABLE' });
    expect(lock.remaining()).toBeGreaterThan(0);
    expect(lock.remaining()).toBeLessThan(TTL_MS);
    await on([0, 1, 2], (node) => node.resume());
    await Promise.all(clients.map((client) => client.flushall()));
    await expect(lock.extend(TTL_MS)).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', votes: { granted: [] } });
  });

  test('an error reply is a failed vote, whatever it says', async () => {
    await Promise.all(clients.slice(0, 3).map((client) => client.config('SET', 'maxmemory', '1')));
    await expect(redlock.acquire('a', TTL_MS)).rejects.toMatchObject({
      code: 'ERR_LOCK_QUORUM_UNREACHABLE',
      votes: { failed: [0, 1, 2] },
      cause: { message: expect.stringMatching(/^OOM/) },
    });
    await Promise.all(clients.slice(0, 3).map((client) => client.config('SET', 'maxmemory', '0')));
    await expect.poll(() => onAll('a')).toEqual([null, null, null, null, null]);
  });

  test('a quorum that comes too late for the TTL is no lock', async () => {
    await on([0, 1, 2], (node) => node.pause());
    const waiting = redlock.acquire('a', TTL_MS, { nodeTimeoutMs: 100_000, minValidityMs: TTL_MS - 200 });
    await sleep(200);
    await on([0, 1, 2], (node) => node.resume());
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
    await expect.poll(() => onAll('a')).toEqual([null, null, null, null, null]);
  });
}
