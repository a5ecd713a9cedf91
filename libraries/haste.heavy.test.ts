import { expect, it } from 'vitest';
import { loadSubject } from './adapters/index.js';
import { REDLOCK_UNIVERSAL } from './adapters/redlock-universal.js';
import { Haste, LOOP_ANSWERS } from './haste.js';
import { lockFactoryOf } from './lock-factory.js';
import { replayLibraries } from './run.js';
import { kindOf } from './search/kinds.js';
import { lockOf, PEXPIRE_IF, sleep } from './testing/blind/parts.js';
import { plan, scheduleOf } from './testing/schedules.js';
import type { MakeLock } from './testing.js';

/** What is reported of a lock that is held for 2 s, and when, ms. */
async function told(make: MakeLock): Promise<readonly (string | number)[]> {
  const subject = await lockFactoryOf('a lock', make, 500);
  const drawn = scheduleOf([[plan(0, 2_000_000)]]);
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const { violations } = await replayLibraries(subject, schedule, { extendsItself: true });
  return violations.flatMap((it) => [kindOf(it), it.atUs / 1000, it.detail]);
}

/** A lock that keeps itself alive with this between two extensions. */
function keptAlive(rest: () => Promise<unknown>): MakeLock {
  return ({ nodes: [node] }) => {
    const inner = lockOf([node], { token: () => 'mine' });
    return {
      async using(key, ttlMs, routine) {
        const held = (await inner.acquire?.(key, ttlMs)) as { release(): Promise<void> };
        let isOver = false;
        const keepAlive = async (): Promise<void> => {
          for (; !isOver; await rest()) await node.eval(PEXPIRE_IF, 1, key, 'mine', ttlMs);
        };
        const kept = keepAlive();
        await routine(new AbortController().signal);
        isOver = true;
        await kept;
        await held.release();
      },
    };
  };
}

it('tells of a lock that extends itself as soon as it has, at the command that makes it a loop', async () => {
  const detail =
    'c1 holds its lock, and asks n0 again and again without a pause: 100 commands in 198 ms of a TTL of 1000 ms, each granted';
  expect(await told(keptAlive(async () => {}))).toEqual(['hang', 202, detail]);
});

it('takes a timer of 0 for no pause', async () => {
  expect((await told(keptAlive(() => sleep(0)))).slice(0, 1)).toEqual(['hang']);
});

it('says nothing of one that waits, however short', async () => {
  expect(await told(keptAlive(() => sleep(2)))).toEqual([]);
  expect(await told(keptAlive(() => sleep(333)))).toEqual([]);
});

it('counts what is granted without a pause, for each node by itself, and not what is refused', () => {
  const haste = new Haste();
  const answers = (count: number, isGranted = true, pauses = 0): (number | null)[] =>
    Array.from({ length: count }, (_, i) => haste.answered(0, isGranted, pauses, i));
  expect(answers(LOOP_ANSWERS - 1).every((it) => it === null)).toBe(true);
  expect(haste.answered(1, true, 0, 0)).toBeNull();
  expect(haste.answered(0, false, 0, 0)).toBeNull();
  expect(answers(LOOP_ANSWERS - 1).every((it) => it === null)).toBe(true);
  expect(haste.answered(0, true, 1, 5)).toBeNull();
  expect(answers(LOOP_ANSWERS - 1, true, 1).at(-1)).toBe(5);
});

it('finds it in redlock-universal, below the least time between two of its extensions only', async () => {
  const kindsWith = async (ttlMs: number): Promise<readonly string[]> => {
    const schedule = scheduleOf([[plan(0, 4_000_000, { ttlMs })]]);
    const { violations } = await replayLibraries(await loadSubject(REDLOCK_UNIVERSAL), schedule, {
      extendsItself: true,
    });
    return violations.map(kindOf);
  };
  expect(await kindsWith(1_250)).toContain('hang');
  expect(await kindsWith(1_251)).not.toContain('hang');
});
