import { expect, test } from 'vitest';
import { findScenario } from '../scenarios/catalogue.js';
import type { FaultAmounts } from '../search/fault-choice.js';
import { NO_STRETCH } from '../search/fault-model.js';
import { WITHIN_ASSUMPTIONS } from '../search/index.js';
import { planOf } from './check-plan.js';

test('without flags the search is within the assumptions, up to their edge', () => {
  const plan = planOf({ shrink: true }, null);
  expect(plan.faultModel).toEqual(WITHIN_ASSUMPTIONS);
  expect(plan).toMatchObject({
    seed: '1',
    runs: 10_000,
    budgetMs: null,
    properties: ['mutual-exclusion', 'quorum-backed', 'no-stale-write'],
  });
});

test('beyond the assumptions, a lost majority counts only in schedules that keep them, or when it is asked for', () => {
  const some = { properties: ['mutual-exclusion'], insideOnly: ['quorum-backed'] };
  const only = (faults: FaultAmounts) => planOf({ shrink: true, faults: { only: faults } }, null);
  expect(only({ crash: 1, 'clock-step': 200_000 })).toMatchObject(some);
  expect(only({ 'data-loss': 1 })).toMatchObject(some);
  expect(only({ failover: 1, 'replica-lag': 1 })).toMatchObject(some);
  expect(planOf({ shrink: true, faults: { only: { crash: 1 } }, restartDelay: 0 }, null)).toMatchObject(some);
  expect(planOf({ shrink: true }, findScenario('S16').schedule)).toMatchObject(some);
  expect(planOf({ shrink: true, restartDelay: 0 }, null)).toMatchObject({
    properties: ['mutual-exclusion'],
    insideOnly: ['quorum-backed', 'no-stale-write'],
  });
  const asked = planOf({ shrink: true, restartDelay: 0, properties: ['cleanup'] }, null);
  expect(asked).toMatchObject({ properties: ['cleanup'], insideOnly: [] });
});

test('within the assumptions it counts in all of them, whichever faults are named', () => {
  const all = { properties: ['mutual-exclusion', 'quorum-backed'], insideOnly: [] };
  const only = (faults: FaultAmounts) => planOf({ shrink: true, faults: { only: faults } }, null);
  expect(only({ loss: 20_000 })).toMatchObject(all);
  expect(only({ crash: 1, 'power-loss': 1, failover: 1, 'clock-step': 12_000, 'clock-drift': 5_058 })).toMatchObject(
    all,
  );
  expect(only({ 'clock-step': 12_001 })).not.toMatchObject(all);
  expect(only({ 'clock-drift': 5_059 })).not.toMatchObject(all);
  const crash = { shrink: true, faults: { only: { crash: 1 } }, ttl: [10_000] } as const;
  expect(planOf({ ...crash, ttl: [10_000], restartDelay: 9_898_000 }, null)).toMatchObject(all);
  expect(planOf({ ...crash, ttl: [10_000], restartDelay: 9_897_999 }, null)).not.toMatchObject(all);
  expect(planOf({ ...crash, ttl: [10_000], restartDelay: 0, persistence: 'always' }, null)).toMatchObject(all);
  const changed = { more: { crash: 1 }, less: ['late'] } as const;
  expect(planOf({ shrink: true, faults: changed }, null)).toMatchObject(all);
});

test('with a budget alone there is no limit on the runs', () => {
  expect(planOf({ shrink: true, budget: 30_000_000 }, null)).toMatchObject({ runs: null, budgetMs: 30_000 });
});

test('faults that are named are the only ones, in the amounts named', () => {
  const { faultModel } = planOf(
    { shrink: true, faults: { only: { crash: 2, 'clock-step': 50_000, loss: 20_000 } } },
    null,
  );
  expect(faultModel).toMatchObject({
    stretch: { ...NO_STRETCH, 'clock-step': 1, 'restart-delay': 1 },
    stepUs: 50_000,
    crashes: 2,
    pauses: 0,
    clientCrashes: 0,
    partitions: 0,
    lossPpm: 20_000,
    duplicatePpm: 0,
    spikePpm: 0,
  });
});

test('failovers, flushes and refusals can be asked for, and how far replicas are behind', () => {
  const { faultModel } = planOf(
    { shrink: true, faults: { only: { failover: 1, 'replica-lag': 100_000, 'data-loss': 2, 'error-replies': 3 } } },
    null,
  );
  expect(faultModel).toMatchObject({ failovers: 1, replicaLagUs: 100_000, flushes: 2, refusals: 3, crashes: 0 });
});

test('how far to go past a bound is said in shares of it', () => {
  const { faultModel } = planOf({ shrink: true, exceed: 'write-delay', exceedBy: 1_000 }, null);
  expect(faultModel.stretch).toEqual({ ...NO_STRETCH, 'write-delay': 1.001 });
  expect(() => planOf({ shrink: true, exceedBy: 1_000 }, null)).toThrow(/--exceed-by: .* Add --exceed /);
});

test('a restart delay of ttl is longer than any key lives', () => {
  const { faultModel } = planOf({ shrink: true, restartDelay: 'ttl', ttl: [1_000, 20_000] }, null);
  expect(faultModel).toMatchObject({ restartDelayUs: 20_001_000, ttlsMs: [1_000, 20_000] });
  expect(faultModel.stretch['data-loss']).toBe(0);
});

test('drift and votes wanted are the clients’ own', () => {
  const { faultModel } = planOf({ shrink: true, driftAllowance: 20_000, targetVotes: 'all' }, null);
  expect(faultModel.policy).toMatchObject({ profile: 'reference', settings: { driftPpm: 20_000, votesWanted: 'all' } });
});

test('a search for broken fencing has tokens and a resource that checks them, or those of the scenario', () => {
  const planned = (...args: Parameters<typeof planOf>) => {
    const { faultModel } = planOf(...args);
    return [faultModel.policy.settings.fencing, faultModel.policy.deviations, faultModel.resource];
  };
  expect(planned({ shrink: true }, null)).toEqual([false, [], 'none']);
  expect(planned({ shrink: true, properties: ['fencing'] }, null)).toEqual([true, [], 'fencing']);
  expect(planned({ shrink: true, properties: ['fencing'] }, findScenario('S29').schedule)).toEqual([
    false,
    ['fence-max', 'grants-count'],
    'none',
  ]);
  expect(planned({ shrink: true }, findScenario('S27').schedule)).toEqual([true, [], 'fencing']);
});

test('around a scenario, cluster, clients and kinds of faults are its own', () => {
  const { faultModel } = planOf({ shrink: true }, findScenario('S16').schedule);
  expect(faultModel).toMatchObject({ nodes: 5, clients: 2, ttlsMs: [10_000], stepUs: 106_000, crashes: 0, pauses: 0 });
  expect(faultModel.stretch).toEqual({ ...NO_STRETCH, 'clock-step': 1 });
});

test('flags come before what a demonstration would do', () => {
  expect(planOf({ shrink: true, demo: true, nodes: 3 }, null).faultModel).toMatchObject({ nodes: 3, crashes: 1 });
});
