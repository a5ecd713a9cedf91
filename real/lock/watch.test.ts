import { spawnSync } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { LockError, type LockNotice, Redlock } from './index.js';

const EVENTS = ['acquired', 'contended', 'failed', 'extended', 'lost', 'released'] as const;

describe('what happens to locks is told', () => {
  let nodes: Provision;
  let clients: Redis[];
  let redlock: Redlock;
  let emitted: LockNotice[];
  let published: unknown[];
  const onMessage = (message: unknown) => published.push(message);

  beforeAll(async () => {
    nodes = await provision({ nodes: 3, sources: ['mock'] });
    clients = nodes.nodes.map((node) => node.client());
    redlock = new Redlock(clients, { retryCount: 1, retryDelay: 1, retryJitter: 0, nodeTimeoutMs: 2000 });
  });
  afterAll(async () => {
    await redlock.quit();
    await nodes.stop();
  });

  function listen(): void {
    emitted = [];
    published = [];
    for (const event of EVENTS) {
      redlock.on(event, (notice) => emitted.push(notice));
      subscribe(`lockstep-redlock:${event}`, onMessage);
    }
  }
  afterEach(() => {
    for (const event of EVENTS) {
      redlock.removeAllListeners(event);
      unsubscribe(`lockstep-redlock:${event}`, onMessage);
    }
  });

  test('by events and channels, with durations, votes and attempts, and without the token', async () => {
    listen();
    const lock = await redlock.acquire(['a', 'b'], 5000, { votesWanted: 'all' });
    await redlock.acquire('a', 5000).catch(() => undefined);
    await lock.extend(6000);
    await lock.release();
    await lock.extend(6000).catch(() => undefined);
    expect(emitted.map(({ event, operation, code }) => [event, operation, code])).toEqual([
      ['acquired', 'acquire', null],
      ['contended', 'acquire', 'ERR_LOCK_CONTENDED'],
      ['extended', 'extend', null],
      ['released', 'release', null],
      ['failed', 'extend', 'ERR_LOCK_LOST'],
    ]);
    expect(published).toEqual(emitted);
    const [acquired, contended, extended, released, failed] = emitted;
    expect(acquired).toMatchObject({ resources: ['a', 'b'], attempts: 1, extensions: 0, heldMs: 0 });
    expect(acquired?.votes.granted).toEqual([0, 1, 2]);
    expect(acquired?.remainingMs).toBeGreaterThan(4000);
    expect(contended).toMatchObject({ resources: ['a'], attempts: 2, remainingMs: 0 });
    expect(contended?.durationMs).toBeGreaterThanOrEqual(1);
    expect(extended).toMatchObject({ extensions: 1 });
    expect(extended?.remainingMs).toBeGreaterThan(5000);
    expect(released?.heldMs).toBeGreaterThanOrEqual(extended?.heldMs ?? Number.NaN);
    expect(released?.votes.granted.length).toBeGreaterThan(1);
    expect(failed?.durationMs).toBe(0);
    for (const { durationMs } of emitted) expect(durationMs).toBeLessThan(5000);
    expect(JSON.stringify(emitted)).not.toContain(lock.value);
  });

  test('with lists of nodes that events share, and nobody can change', async () => {
    listen();
    for (let i = 0; i < 2; i++) await (await redlock.acquire('shared', 5000, { votesWanted: 'all' })).release();
    const [first, , second] = emitted;
    expect(first?.votes.granted).toEqual([0, 1, 2]);
    expect(second?.votes.granted).toBe(first?.votes.granted);
    expect(Object.values(second?.votes ?? {}).every(Object.isFrozen)).toBe(true);
  });

  test('also the loss of a lock, and an acquisition that is given up before it began', async () => {
    listen();
    const lock = await redlock.acquire('lost', 50);
    await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    const abort = new AbortController();
    const waiting = redlock.acquire('lost:2', 5000, { signal: abort.signal });
    abort.abort();
    await waiting.catch(() => undefined);
    const [, lost, failed] = emitted;
    expect(lost).toMatchObject({
      event: 'lost',
      operation: 'hold',
      durationMs: 0,
      remainingMs: 0,
      resources: ['lost'],
    });
    expect(lost?.heldMs).toBeGreaterThan(30);
    expect(failed).toMatchObject({ event: 'failed', operation: 'acquire', code: 'ERR_LOCK_ABORTED' });
  });

  test('and what a listener throws harms no lock', async () => {
    const thrown = new Promise((resolve) => {
      const others = process.listeners('uncaughtException');
      process.removeAllListeners('uncaughtException');
      process.once('uncaughtException', (error) => {
        for (const other of others) process.on('uncaughtException', other);
        resolve(error);
      });
    });
    redlock.once('acquired', () => {
      throw new Error('mine');
    });
    await (await redlock.acquire('thrown', 5000)).release();
    expect(await thrown).toMatchObject({ message: 'mine' });
  });

  test('errors show who called, also through what awaited it', async () => {
    const held = await redlock.acquire('stack', 5000, { votesWanted: 'all' });
    async function caller(act: () => Promise<unknown>): Promise<string | undefined> {
      const error = await act().catch((reason: unknown) => reason);
      return error instanceof LockError ? error.stack : undefined;
    }
    async function helper(): Promise<void> {
      await redlock.using('stack', 5000, async () => {});
    }
    await held.release();
    const other = await redlock.acquire('stack', 5000);
    for (const act of [() => redlock.acquire('stack', 5000), helper, () => held.extend(5000)]) {
      const stack = await caller(act);
      expect(stack).toMatch(/^LockError: .*stack/);
      expect(stack).toContain('at async caller');
    }
    expect(await caller(helper)).toContain('at async helper');
    await other.release();
  });

  test('a lock is shown without its token', async () => {
    await using lock = await redlock.acquire('shown', 5000, { votesWanted: 'all' });
    const json = JSON.parse(JSON.stringify({ lock })).lock;
    expect(json).toMatchObject({ resources: ['shown'], votes: { granted: [0, 1, 2] }, fencingCounter: null });
    expect(json.remainingMs).toBeGreaterThan(4000);
    expect(inspect({ lock }, { depth: 4 })).toMatch(/lock: Lock \{\s+resources: \[ 'shown' \],\s+remainingMs: 4\d+/);
    expect(inspect(lock, { showHidden: true }) + JSON.stringify(lock)).not.toContain(lock.value);
  });
});

test('NODE_DEBUG has it all on stderr, one line each', () => {
  const program = `
    import { Redlock } from './real/lock/index.ts';
    const transport = { openSession: ({ onEnd }) => (onEnd(new Error('not today')), { send: async () => null, close() {} }) };
    const redlock = new Redlock([transport], { retryCount: 0 });
    await redlock.acquire('logged', 1000).catch(() => {});
    process.exit();`;
  const run = (env: NodeJS.ProcessEnv) =>
    spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program], {
      cwd: new URL('../..', import.meta.url),
      env: { ...process.env, ...env },
      encoding: 'utf8',
    }).stderr;
  const lines = run({ NODE_DEBUG: 'lockstep-redlock' }).trim().split('\n');
  expect(lines[0]).toMatch(/^LOCKSTEP-REDLOCK \d+: n0 not today$/);
  expect(lines.at(-1)).toMatch(
    /^LOCKSTEP-REDLOCK \d+: failed \{"resources":\["logged"\],.*"ERR_LOCK_QUORUM_UNREACHABLE"\}$/,
  );
  expect(run({ NODE_DEBUG: '' })).toBe('');
});
