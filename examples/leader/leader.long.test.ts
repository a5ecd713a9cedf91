import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FencingToken, Redlock } from 'lockstep-redlock';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { verifyHistory } from '../../properties/history/verify.js';
import { type Provision, provision } from '../../real/provisioner/index.js';
import { NodeProxy } from '../../real/proxy/index.js';
import { canRunOnRedis } from '../../real/testing/can-run.js';
import { runFor } from './leader.js';
import { Register } from './register.js';

const title = 'two candidates for a role, on five Redis nodes';
/** How long a machine that does much else may take for what is awaited. */
const PATIENT = { timeout: 40_000, interval: 20 };
/** Long enough that a machine that does much else loses no role by that. */
const TTL_MS = 3_000;

test('the register refuses who shows a lesser token than it has seen', () => {
  const register = new Register();
  const token = (counter: number): FencingToken => ({ counter, attempt: null });
  expect([3, 3, 2, 4].map((counter) => register.write(`c${counter}`, token(counter)))).toEqual([
    true,
    true,
    false,
    true,
  ]);
  expect(register).toMatchObject({ refused: 1, leaders: ['c3', 'c4'] });
});

describe.skipIf(!canRunOnRedis(title, 'processes'))(title, () => {
  let nodes: Provision;
  let register: Register;
  let histories: string[];
  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
    await using redlock = new Redlock(nodes.urls, { nodeTimeoutMs: 20_000 });
    await redlock.recoverFencing(0);
  });
  beforeEach(() => {
    register = new Register();
    histories = [];
  });
  afterAll(() => nodes?.stop());

  /** A candidate in this process, on ways of its own to the nodes. */
  async function candidate(name: string, role: string, ttlMs: number) {
    const ways = await Promise.all(
      nodes.urls.map((url) => NodeProxy.open({ host: '127.0.0.1', port: Number(new URL(url).port) })),
    );
    const redlock = new Redlock(
      ways.map(({ url }) => url),
      { fencing: true, retryDelay: 50, retryJitter: 25, nodeTimeoutMs: 300 },
    );
    const recording = redlock.record({ client: name });
    const stop = new AbortController();
    const it = { terms: 0, isLeading: false };
    const lead = async (signal: AbortSignal, token: FencingToken): Promise<void> => {
      it.terms++;
      it.isLeading = true;
      while (!signal.aborted) {
        register.write(name, token);
        await sleep(5);
      }
      it.isLeading = false;
    };
    const running = runFor({ name: role, ttlMs, lead }, redlock, stop.signal);
    const end = async (): Promise<void> => {
      stop.abort();
      await running;
      histories.push(recording.history());
      await redlock.quit();
      await Promise.all(ways.map((way) => way.close()));
    };
    return { it, ways, end };
  }

  function neverTwo(): void {
    const { verdict, violations } = verifyHistory(histories.join('').split('\n'));
    expect({ verdict, violations }).toEqual({ verdict: 'passed', violations: [] });
  }

  test('hand over at once when the leader shuts down', async () => {
    // By its TTL, the role would be free long after this test has given up.
    const first = await candidate('c1', 'clean', 120_000);
    await expect.poll(() => first.it.isLeading, PATIENT).toBe(true);
    const second = await candidate('c2', 'clean', 120_000);
    await sleep(300);
    expect(second.it.terms).toBe(0);
    await first.end();
    await expect.poll(() => second.it.isLeading, PATIENT).toBe(true);
    await second.end();
    expect(register.leaders).toEqual(['c1', 'c2']);
    neverTwo();
  });

  test('hand over when the leader is cut off from a majority, which runs again when it is back', async () => {
    const first = await candidate('c1', 'cut off', TTL_MS);
    await expect.poll(() => first.it.isLeading, PATIENT).toBe(true);
    const second = await candidate('c2', 'cut off', TTL_MS);
    for (const way of first.ways.slice(0, 3)) way.drop('both');
    await expect.poll(() => second.it.isLeading, PATIENT).toBe(true);
    await expect.poll(() => first.it.isLeading, PATIENT).toBe(false);
    for (const way of first.ways) way.drop('nothing');
    await second.end();
    await expect.poll(() => first.it.isLeading, PATIENT).toBe(true);
    await first.end();
    // What the first wrote before it had noticed was refused, or there was nothing.
    expect(register.leaders).toEqual(['c1', 'c2', 'c1']);
    neverTwo();
  });

  test('keep the leader while a minority of its nodes is lost', async () => {
    const first = await candidate('c1', 'minority', TTL_MS);
    await expect.poll(() => first.it.isLeading, PATIENT).toBe(true);
    const second = await candidate('c2', 'minority', TTL_MS);
    for (const way of first.ways.slice(0, 2)) way.drop('both');
    const before = register.writers.length;
    await sleep(2 * TTL_MS);
    expect(register.writers.length).toBeGreaterThan(before);
    await Promise.all([first.end(), second.end()]);
    expect(register.leaders[0]).toBe('c1');
    neverTwo();
  });

  /** A candidate as a process of its own. */
  function processOf(name: string, role: string): { child: ChildProcess; end(): Promise<void> } {
    const args = [name, role, String(TTL_MS), nodes.urls.join(',')];
    const child = fork(new URL('candidate.ts', import.meta.url), args, { execArgv: ['--import', 'tsx'] });
    child.on('message', (told: { token: FencingToken } | { history: string }) => {
      if ('token' in told) register.write(name, told.token);
      else histories.push(told.history);
    });
    const end = async (): Promise<void> => {
      const ended = once(child, 'exit');
      child.send('stop');
      expect((await ended)[0]).toBe(0);
    };
    return { child, end };
  }

  test('hand over when the process of the leader hangs, and what it writes as it goes on changes nothing', async () => {
    const first = processOf('c1', 'hung');
    const second = processOf('c2', 'hung');
    try {
      await expect.poll(() => register.leaders.length, PATIENT).toBe(1);
      const [hung, other] = register.leaders[0] === 'c1' ? [first, second] : [second, first];
      hung.child.kill('SIGSTOP');
      await expect.poll(() => register.leaders.length, PATIENT).toBe(2);
      hung.child.kill('SIGCONT');
      const written = register.writers.length;
      await expect.poll(() => register.writers.length, PATIENT).toBeGreaterThan(written + 20);
      expect(register.leaders.length).toBe(2);
      await Promise.all([hung.end(), other.end()]);
      neverTwo();
    } finally {
      for (const { child } of [first, second]) child.kill('SIGKILL');
    }
  });
});
