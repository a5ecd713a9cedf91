import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type HistoryVerdict, verifyHistory } from '../../properties/history/verify.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { openHistory, Recorder } from './recorder.js';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const prefix = `lockstep:history:${process.pid}`;
let taken = 0;
const fresh = () => `${prefix}:${taken++}`;

/** What two clients do, recorded into one file. */
async function recorded(run: (append: ReturnType<typeof openHistory>['append']) => Promise<void>): Promise<string[]> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-history-')), 'run.jsonl');
  {
    using file = openHistory(path);
    await run(file.append);
  }
  return readFileSync(path, 'utf8').split('\n');
}

/** The types of lines in the order in which they were recorded. */
function types(lines: readonly string[]): string[] {
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line).type);
}

describe.skipIf(!canRunOnRedis('the recorder on five real nodes', 'processes'))('a recorded run', () => {
  let nodes: Provision;
  let clients: Redis[];

  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
    clients = nodes.nodes.map((node) => node.client());
  });
  afterAll(async () => {
    await nodes?.stop();
  });

  /** Lets two clients, each with these nodes, hold one resource at one time if they can. */
  async function bothAcquire(
    first: Redis[],
    second: Redis[],
    between: () => Promise<void> = async () => {},
  ): Promise<HistoryVerdict> {
    await using one = new Redlock(first);
    await using two = new Redlock(second, { retryCount: 20, retryDelay: 50 });
    const resource = fresh();
    const lines = await recorded(async (append) => {
      const lock = await new Recorder(one, { client: 'c1', append }).acquire(resource, 30_000);
      await between();
      const other = await new Recorder(two, { client: 'c2', append }).acquire(resource, 30_000);
      await Promise.all([lock.release(), other.release()]);
    });
    return verifyHistory(lines);
  }

  test('of two clients that contend for one resource passes', async () => {
    const resource = fresh();
    const lines = await recorded(async (append) => {
      const worker = async (client: string): Promise<void> => {
        await using redlock = new Redlock(clients, { retryCount: -1, retryDelay: 3, retryJitter: 2 });
        const recorder = new Recorder(redlock, { client, append });
        for (let turn = 0; turn < 20; turn++) {
          const lock = await recorder.acquire(resource, 5_000);
          lock.wrote(resource);
          if (turn % 5 === 0) await lock.extend(8_000);
          await sleep(1);
          lock.wrote(resource);
          await lock.release();
        }
      };
      await Promise.all([worker('c1'), worker('c2')]);
    });
    expect(verifyHistory(lines)).toEqual({ verdict: 'passed', operations: 168, violations: [], doubts: [] });
  });

  test('tells how each operation ended', async () => {
    await using redlock = new Redlock(clients, { retryCount: 0 });
    const resource = fresh();
    const lines = await recorded(async (append) => {
      const recorder = new Recorder(redlock, { client: 'c1', append });
      const lock = await recorder.acquire([resource], 5_000);
      await expect(recorder.acquire(resource, 5_000)).rejects.toThrow();
      await lock.extend(9_000);
      await lock.release();
      const short = await recorder.acquire(resource, 50);
      await sleep(60);
      await expect(short.extend(5_000)).rejects.toThrow();
      await short.release();
    });
    expect(types(lines).join(' ')).toBe(
      'acquire acquired acquire failed extend extended release released ' +
        'acquire acquired extend not-extended release released',
    );
    expect(verifyHistory(lines).verdict).toBe('passed');
  });

  test('tells the fencing tokens of its locks, which rise', async () => {
    await using redlock = new Redlock(clients, { fencing: true });
    await redlock.recoverFencing(0);
    const resource = fresh();
    const lines = await recorded(async (append) => {
      const recorder = new Recorder(redlock, { client: 'c1', append });
      for (let turn = 0; turn < 3; turn++) await (await recorder.acquire(resource, 5_000)).release();
    });
    const told = lines.flatMap((line) => (line === '' ? [] : (JSON.parse(line).fencingToken?.counter ?? [])));
    expect(told).toEqual([1, 2, 3]);
    expect(verifyHistory(lines).verdict).toBe('passed');
    const swapped = lines.map((line) =>
      line.replace('"counter":3', '"counter":2').replace('"counter":1,', '"counter":4,'),
    );
    expect(verifyHistory(swapped).violations).toMatchObject([{ property: 'fencing' }, { property: 'fencing' }]);
  });

  test('calls a claim unknown that had run out before it could be noted', async () => {
    await using redlock = new Redlock(clients, { retryCount: 0 });
    let frozenMs = 0;
    const nowUs = (): number => {
      const until = performance.now() + frozenMs;
      while (performance.now() < until);
      return Number(process.hrtime.bigint() / 1000n);
    };
    const lines = await recorded(async (append) => {
      const recorder = new Recorder(redlock, { client: 'c1', append, nowUs });
      const acquired = recorder.acquire(fresh(), 500);
      frozenMs = 600;
      const lock = await acquired;
      frozenMs = 0;
      await lock.release();
    });
    expect(types(lines).join(' ')).toBe('acquire unknown release released');
    expect(verifyHistory(lines)).toMatchObject({ verdict: 'inconclusive', violations: [] });
  });

  test('by clocks that differ passes if they say by how much', async () => {
    const differUs = 400_000;
    const now = (): number => Number(process.hrtime.bigint() / 1000n);
    const handedOver = async (errorUs: number): Promise<HistoryVerdict> => {
      await using redlock = new Redlock(clients, { retryCount: 20, retryDelay: 10, retryJitter: 5 });
      const resource = fresh();
      const lines = await recorded(async (append) => {
        const fast = new Recorder(redlock, { client: 'c1', append, errorUs, nowUs: () => now() + differUs });
        const right = new Recorder(redlock, { client: 'c2', append, errorUs, nowUs: now });
        await (await fast.acquire(resource, 30_000)).release();
        const lock = await right.acquire(resource, 30_000);
        await sleep(differUs / 1000 + 100);
        await lock.release();
      });
      return verifyHistory(lines);
    };
    // By its fast clock, the first has the lock when the second has long acquired it.
    expect((await handedOver(1)).verdict).toBe('violated');
    expect((await handedOver(differUs)).violations).toEqual([]);
  });

  test('is violated if the clients do not share a majority of nodes', async () => {
    const { verdict, violations } = await bothAcquire(clients.slice(0, 3), clients.slice(3, 4));
    expect(verdict).toBe('violated');
    expect(violations).toMatchObject([{ property: 'mutual-exclusion', lines: [2, 4, 5, 6] }]);
  });

  test('is violated if a majority of nodes forgets a lock', async () => {
    const restart = async (): Promise<void> => {
      for (const node of nodes.nodes.slice(0, 3)) await node.restart({ keepData: false });
    };
    expect((await bothAcquire(clients, clients, restart)).verdict).toBe('violated');
  });
});

test('a lock of another copy of the package is recorded as one of this copy', async () => {
  const error = Object.assign(new Error('a is held by others'), { name: 'LockError', code: 'ERR_LOCK_CONTENDED' });
  const lock = {
    fencingToken: null,
    remaining: () => 1000,
    extend: () => Promise.reject(error),
    release: () => Promise.resolve({ released: 1, alreadyGone: 0, unreachable: 0, unanswered: 0 }),
  };
  const calls = [() => lock, () => error, () => new TypeError('this is no lock')];
  const acquire = async () => {
    const result = calls.shift()?.() ?? error;
    if (result instanceof Error) throw result;
    return result;
  };
  const lines = await recorded(async (append) => {
    const recorder = new Recorder({ acquire }, { client: 'c1', append });
    const held = await recorder.acquire('a', 1000);
    expect(held.lock).toBe(lock);
    await held.extend(1000).catch(() => {});
    await held.release();
    await expect(recorder.acquire('a', 1000)).rejects.toBe(error);
    await expect(recorder.acquire('a', 1000)).rejects.toThrow(TypeError);
  });
  const ofFirst = ['acquire', 'acquired', 'extend', 'not-extended', 'release', 'released'];
  expect(types(lines)).toEqual([...ofFirst, 'acquire', 'failed', 'acquire', 'unknown']);
});
