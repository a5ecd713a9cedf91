import { describe, expect, it } from 'vitest';
import { type Fate, plainCluster } from '../scenarios/index.js';
import { loadSubject, MATRIX } from './adapters/index.js';
import { lockFactoryOf } from './lock-factory.js';
import type { MakeLock } from './lock-under-test.js';
import { replayLibraries, replayLibrariesAtOnce } from './run.js';
import { inMacrotask } from './runtime/drain.js';
import { kindOf, type ViolationKind } from './search/kinds.js';
import { plan, scheduleOf } from './testing/schedules.js';

/** What is known to be wrong with them where nothing goes wrong: locks are held for longer than their keys last for certain. */
const KNOWN: Readonly<Record<string, readonly ViolationKind[]>> = {
  // They count from the answers.
  'redlock-universal': ['margin', 'margin'],
  'redis-kit': ['margin'],
  // It counts the whole of the last millisecond.
  verrou: ['margin'],
};

describe.each(MATRIX)('$package $version', (library) => {
  it('acquires, extends, releases and lets the next one in', async () => {
    const subject = await loadSubject(library);
    const cluster = plainCluster(library.nodes ?? 5);
    const schedule = scheduleOf(
      [[plan(0, 300_000, { extensions: [{ afterUs: 100_000, ttlMs: 1_000 }] })], [plan(500_000, 100_000)]],
      { cluster },
    );
    const { run, violations, uncaught } = await replayLibraries(subject, schedule, { trace: true });
    expect(uncaught).toEqual([]);
    expect(violations.map(kindOf)).toEqual(KNOWN[library.id] ?? []);
    const kinds = run.trace.map(({ kind }) => kind);
    expect(kinds.filter((it) => it === 'claim')).toHaveLength(2);
    expect(kinds.filter((it) => it === 'released')).toHaveLength(2);
    const fast = await inMacrotask(() => replayLibrariesAtOnce(subject, schedule));
    const again = await replayLibraries(subject, schedule);
    expect([fast.run.hash, again.run.hash]).toEqual([again.run.hash, again.run.hash]);
  });
});

it.each([
  ['redlock5', ['loss-notified']],
  ['lockstep', []],
])('%s: a signal that aborts after using() has returned is reported', async (id, expected) => {
  const library = MATRIX.find((it) => it.id === id);
  if (library === undefined) throw new Error(`no library ${id}`);
  const late: Fate = { client: 'c1', operation: 'extend', node: 'n0', direction: 'reply', delayUs: 300_000 };
  // The extension of redlock 5 is under way when the routine ends.
  const drawn = scheduleOf([[plan(0, 3_500_000, { ttlMs: 4_000 })]], { fates: [late] });
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const { violations } = await replayLibraries(await loadSubject(library), schedule, { extendsItself: true });
  expect(violations.map(({ property }) => property)).toEqual(expected);
});

it('the exit code of a library is not that of the process it is tested in', async () => {
  const before = process.exitCode;
  const seen: unknown[] = [];
  const make: MakeLock = () => {
    process.exitCode = 3;
    return {
      acquire: async () => {
        process.exitCode = 4;
        seen.push(process.exitCode);
        return null;
      },
      release: () => undefined,
    };
  };
  const schedule = scheduleOf([[plan(0, 1_000)]]);
  const subject = await lockFactoryOf('a lock', make, undefined);
  await replayLibraries(subject, schedule);
  expect([seen.length > 0, process.exitCode]).toEqual([true, before]);
  await inMacrotask(() => replayLibrariesAtOnce(subject, schedule));
  expect(process.exitCode).toBe(before);
});

it('a lock may count before it sets anything', async () => {
  const counted: number[] = [];
  const make: MakeLock = ({ nodes: [node] }) => ({
    acquire: async () => {
      counted.push(await node.incr('n'), await node.incr('n'));
      return null;
    },
  });
  const subject = await lockFactoryOf('a counter', make, undefined);
  counted.length = 0;
  const { uncaught } = await replayLibraries(subject, scheduleOf([[plan(0, 0)]]));
  expect([uncaught, counted]).toEqual([[], [1, 2]]);
});
