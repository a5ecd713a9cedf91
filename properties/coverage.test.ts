import { expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { ScriptedAdversary, setupOf, World } from '../sim/index.js';
import { lock, type Parts, schedule, unreached } from '../sim/testing/schedule.js';
import { type Counts, noCounts } from './coverage.js';
import { Monitors } from './monitors/monitors.js';

/** What a run went through, without what it did not. */
function exercised(parts: Parts): Partial<Counts> {
  const plan = schedule(parts);
  const counts = noCounts();
  const monitors = new Monitors(setupOf(plan), [], counts);
  const world = new World(setupOf(plan), new ScriptedAdversary(plan), monitors, false);
  monitors.watch(world);
  world.run();
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

it('counts how claims begin and end', () => {
  const extension = { afterUs: 1_000, ttlMs: 10_000 };
  const locks = [[lock(0, { holdUs: 5_000, extensions: [extension] }), lock(50_000)]];
  expect(exercised({ locks })).toEqual({ claims: 2, extensions: 1, releases: 1, expiries: 1 });
  expect(exercised({ policy: { tries: 1 }, fates: unreached('c1', 'n0', 'n1', 'n2') })).toEqual({ failures: 1 });
});

it('counts a claim as contended once, whoever came first, and only for the same resource', () => {
  const policy = { tries: 2 };
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
    pausesInClaim: 1,
    clockStepsInClaim: 1,
    partitionsInClaim: 1,
    clientCrashesInClaim: 1,
  });
  expect(exercised({ faults: faults(9_898_000) })).toEqual({ claims: 1 });
});
