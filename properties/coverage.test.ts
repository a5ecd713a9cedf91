import { expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { COVERAGE_LABELS, disabledPoints, firstUncovered } from '../search/coverage-labels.js';
import { exceedBound, type FaultModel, NO_FAULTS, NO_STRETCH, WITHIN_ASSUMPTIONS } from '../search/fault-model.js';
import { ScriptedAdversary, setupOf, World } from '../sim/index.js';
import { lock, type Parts, schedule, unreached } from '../sim/testing/schedule.js';
import { type Counts, type CoveragePoint, noCounts } from './coverage.js';
import { Monitors } from './monitors/monitors.js';

/** What a run went through, without what it did not. */
function exercised(parts: Parts): Partial<Counts> {
  const plan = schedule(parts);
  const counts = noCounts();
  const monitors = new Monitors(setupOf(plan), counts);
  const world = new World(setupOf(plan), new ScriptedAdversary(plan), monitors, false);
  world.run();
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

it('counts how claims begin and end', () => {
  const extension = { afterUs: 1_000, ttlMs: 10_000 };
  const locks = [[lock(0, { holdUs: 5_000, extensions: [extension] }), lock(50_000)]];
  expect(exercised({ locks })).toEqual({ claims: 2, extensions: 1, releases: 1, expiries: 1 });
  expect(exercised({ policy: { settings: { tries: 1 } }, fates: unreached('c1', 'n0', 'n1', 'n2') })).toEqual({
    failures: 1,
  });
});

it('counts a claim as contended once, in either order, and only for the same resource', () => {
  const policy = { settings: { tries: 2 } };
  expect(exercised({ policy, locks: [[lock(0)], [lock(500)]] })).toMatchObject({ claims: 1, contendedClaims: 1 });
  expect(exercised({ policy, locks: [[lock(0)], [lock(50_000)], [lock(60_000)]] })).toMatchObject({
    contendedClaims: 1,
  });
  const other = lock(500, { resources: ['b'] });
  expect(exercised({ policy, locks: [[lock(0)], [other]] })).not.toHaveProperty('contendedClaims');
});

it('does not count those who died waiting as asking', () => {
  const faults: Fault[] = [{ kind: 'client-crash', client: 'c2', atUs: 1 }];
  const parts: Parts = {
    locks: [[lock(5_000)], [lock(0)]],
    faults,
    fates: unreached('c2', 'n0', 'n1', 'n2', 'n3', 'n4'),
  };
  expect(exercised(parts)).toEqual({ claims: 1, expiries: 1 });
});

it('counts a fault only where it meets a claim', () => {
  const faults = (atUs: number): Fault[] => [
    { kind: 'crash', node: 'n0', atUs, restartAfterUs: 0 },
    { kind: 'pause', process: 'n1', atUs, forUs: 5 },
    { kind: 'clock-step', process: 'n2', atUs, byUs: 1 },
    { kind: 'partition', atUs, from: ['c1'], to: ['n3'], oneWay: false, forUs: 5 },
    { kind: 'client-crash', client: 'c1', atUs },
  ];
  expect(exercised({ faults: faults(5_000) })).toEqual({
    claims: 1,
    votesLostInClaim: 1,
    votesForgottenInClaim: 1,
    crashesInClaim: 1,
    restartsInClaim: 1,
    pausesInClaim: 1,
    clockStepsInClaim: 1,
    partitionsInClaim: 1,
    clientCrashesInClaim: 1,
  });
  expect(exercised({ faults: faults(9_898_000) })).toEqual({ claims: 1 });
});

it('counts restarts, refusals, flushes and wrong rates inside a claim', () => {
  const faults: Fault[] = [
    { kind: 'crash', node: 'n4', atUs: 5_000, restartAfterUs: 1_000 },
    { kind: 'error-replies', node: 'n3', operations: ['extend'], atUs: 5_000, forUs: 5 },
    { kind: 'data-loss', node: 'n2', atUs: 5_000 },
    { kind: 'suspend', process: 'c1', atUs: 5_000, forUs: 5 },
    { kind: 'clock-step', process: 'c1', atUs: 5_000, byUs: 5 },
    { kind: 'reconfigure', client: 'c1', nodes: ['n1', 'n0'], atUs: 5_000 },
  ];
  const clocks = [{ process: 'n0', offsetUs: 0, ratePpm: 10 }];
  expect(exercised({ faults, cluster: { clocks } })).toMatchObject({
    crashesInClaim: 1,
    restartsInClaim: 1,
    refusalsInClaim: 1,
    forgettingsInClaim: 1,
    suspendsInClaim: 1,
    wallStepsInClaim: 1,
    reconfigurationsInClaim: 1,
    claimsAtWrongRates: 1,
  });
});

it('counts what ends unseen: a claim of a frozen client, a key whose extension is under way', () => {
  const pause: Fault = { kind: 'pause', process: 'c1', atUs: 9_890_500, forUs: 200_000 };
  expect(exercised({ faults: [pause] })).toMatchObject({ expiries: 1, endsUnseen: 1 });
  const locks = [[lock(0, { extensions: [{ afterUs: 9_888_000, ttlMs: 10_000 }] })]];
  const fates = ['n0', 'n1', 'n2', 'n3', 'n4'].map((node) => ({
    client: 'c1',
    operation: 'extend' as const,
    node,
    direction: 'request' as const,
    lost: true,
  }));
  // Sent at 9 890 ms; the client is frozen when the time-out and the end of its claim come.
  expect(exercised({ locks, fates, faults: [pause] })).toMatchObject({ endsUnseen: 1, expiriesInExtension: 5 });
});

const CALM: FaultModel = { ...WITHIN_ASSUMPTIONS, stretch: NO_STRETCH, ...NO_FAULTS };

it.each<[CoveragePoint, Partial<FaultModel>]>([
  ['crashesInClaim', { crashes: 1 }],
  ['powerLossesInClaim', { powerLosses: 1 }],
  ['pausesInClaim', { pauses: 1 }],
  ['suspendsInClaim', { suspends: 1 }],
  ['wallStepsInClaim', { wallSteps: 1 }],
  ['clientCrashesInClaim', { clientCrashes: 1 }],
  ['partitionsInClaim', { partitions: 1 }],
  ['failoversInClaim', { failovers: 1 }],
  ['refusalsInClaim', { refusals: 1 }],
  ['lossesInClaim', { lossPpm: 1 }],
  ['copiesInClaim', { duplicatePpm: 1 }],
  ['delaysInClaim', { spikePpm: 1 }],
  ['clockStepsInClaim', exceedBound(CALM, 'clock-step', 1)],
  ['claimsAtWrongRates', exceedBound(CALM, 'clock-drift', 1)],
  ['forgettingsInClaim', { flushes: 1 }],
  ['writes', exceedBound(CALM, 'write-delay', 1)],
  ['votesForgottenInClaim', exceedBound(CALM, 'data-loss', 1)],
])('misses %s where that was asked for', (situation, faultModel) => {
  const counts: Counts = { ...noCounts(), claims: 1 };
  expect(firstUncovered(CALM, counts)).toBeNull();
  expect(firstUncovered({ ...CALM, ...faultModel }, counts)).toBe(situation);
  expect(firstUncovered({ ...CALM, ...faultModel }, { ...counts, [situation]: 1 })).toBeNull();
});

it('misses claims before anything else', () => {
  expect(firstUncovered(WITHIN_ASSUMPTIONS, noCounts())).toBe('claims');
  const all = Object.fromEntries(Object.keys(COVERAGE_LABELS).map((name) => [name, 1])) as Counts;
  expect(firstUncovered(WITHIN_ASSUMPTIONS, all)).toBeNull();
});

it('what nobody asked for is told from what was not met', () => {
  expect(disabledPoints(WITHIN_ASSUMPTIONS)).toEqual([]);
  const one: FaultModel = { ...WITHIN_ASSUMPTIONS, ...NO_FAULTS, stretch: NO_STRETCH, crashes: 1, disks: false };
  expect(disabledPoints(one)).toContain('pausesInClaim');
  expect(disabledPoints(one)).not.toContain('crashesInClaim');
  expect(disabledPoints(one)).toContain('powerLossesInClaim');
  expect(disabledPoints({ ...one, powerLosses: 1 })).not.toContain('powerLossesInClaim');
});
