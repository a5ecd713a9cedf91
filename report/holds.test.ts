import { expect, test } from 'vitest';
import { judge } from '../properties/index.js';
import { findScenario } from '../scenarios/catalogue.js';
import type { Fault, Schedule } from '../scenarios/index.js';
import { type Hold, holdsOf } from './holds.js';

const { schedule } = findScenario('S03');

function claims(change: Partial<Schedule>): Hold[] {
  const changed = { ...schedule, ...change };
  return holdsOf(changed, judge(changed, [], true).run.trace);
}

function ends(faults: readonly Fault[]): [string, string, number][] {
  return claims({ faults, fates: [] }).map(({ client, end, endUs }) => [client, end, endUs]);
}

test('a claim ends when its validity does, by its client’s clock', () => {
  const [first] = claims({});
  expect(first).toMatchObject({ client: 'c1', voters: ['n0', 'n1', 'n2'], fromUs: 2_000, endUs: 9_898_000 });
  expect(ends([{ kind: 'clock-drift', process: 'c1', atUs: 0, ratePpm: 1_000 }])[0]).toEqual([
    'c1',
    'expired',
    9_888_112,
  ]);
});

test.each([
  ['boot', 'clock-step', 9_898_000],
  ['wall', 'clock-step', 9_899_000],
  ['boot', 'suspend', 9_898_000],
  ['monotonic', 'suspend', 9_899_000],
] as const)('by the clock that it reads: %s, after a %s', (clock, kind, endUs) => {
  const fault: Fault =
    kind === 'suspend'
      ? { kind, process: 'c1', atUs: 5_000, forUs: 1_000 }
      : { kind, process: 'c1', atUs: 5_000, byUs: -1_000 };
  const [first] = claims({ faults: [fault], fates: [], policy: { profile: 'reference', habits: { clock } } });
  expect(first).toMatchObject({ client: 'c1', end: 'expired', endUs });
});

test('a client that dies believes nothing any more', () => {
  expect(ends([{ kind: 'client-crash', client: 'c1', atUs: 5_000 }])[0]).toEqual(['c1', 'crashed', 5_000]);
});

test('a client that is frozen when its validity ends does not believe for longer', () => {
  expect(ends([{ kind: 'pause', process: 'c1', atUs: 5_000, forUs: 20_000_000 }])[0]).toEqual([
    'c1',
    'expired',
    9_898_000,
  ]);
});

test('a release ends a claim when it is called', () => {
  const [first, ...others] = schedule.clients;
  const [lock] = first?.locks ?? [];
  if (first === undefined || lock === undefined) throw new Error('S03 has no lock');
  const [claim] = claims({ clients: [{ ...first, locks: [{ ...lock, holdUs: 500 }] }, ...others] });
  expect(claim).toMatchObject({ end: 'released', fromUs: 2_000, endUs: 2_500 });
});

test('violations and claims agree on how long both believed', () => {
  const judgement = judge(schedule, [], true);
  const [violation] = judgement.violations.filter((it) => it.property === 'mutual-exclusion');
  const [first, second] = holdsOf(schedule, judgement.run.trace);
  expect([second?.fromUs, first?.endUs]).toEqual([violation?.atUs, violation?.untilUs]);
});
