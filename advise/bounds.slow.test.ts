import { describe, expect, it } from 'vitest';
import { leastForExclusion } from '../bench/bounds/data-loss.js';
import { type EffectCase, longestWay } from '../bench/bounds/effects.js';
import { leastAbsence, leastRestartDelay as measuredDelay } from '../bench/bounds/restart.js';
import { greatestClientStep, greatestClientStop, greatestNodeStep } from '../bench/bounds/steps.js';
import { policyWith, REFERENCE } from '../deviations/index.js';
import { ALIGNED, EXACT, WORST, WORST_AT } from '../search/safety-map/adversary.js';
import { allowanceUs } from '../search/safety-map/computed.js';
import {
  type Drift,
  greatestRateForExclusion,
  NO_DRIFT,
  PROPORTIONAL_DRIFT,
  type RateCase,
  ROUNDED_DRIFT,
  USUAL_DRIFT,
} from '../search/safety-map/rates.js';
import type { Stress } from './attacks.js';
import { agrees, type Figure, leastAllowance, leastGuard, leastRestartDelay, leastVotes } from './figures.js';
import type { Way } from './writes.js';

/*
 * The figures of an advice beside the measured bounds in `bench/bounds/`, which were found without them: where both speak of
 * the same, the least value here is the bound there, to one microsecond or one ppm.
 */

const CALM: Stress = {
  policy: REFERENCE,
  ttlMs: 10_000,
  nodes: 5,
  votes: 3,
  struck: 3,
  driftPpm: 0,
  latencyUs: 0,
  nodeStepUs: 0,
  clientStepUs: 0,
  suspendUs: 0,
  vmUs: 0,
  loss: { kind: 'none' },
};

function least(figure: Figure | null): number {
  if (figure === null) throw new Error('there is no figure');
  expect(agrees(figure, 1), `${figure.of}: ${figure.least} is not ${figure.computed}`).toBe(true);
  return figure.least;
}

const TTLS_MS = [1_000, 8_000, 10_000, 30_000];
const DRIFTS: readonly (readonly [string, Drift])[] = [
  ['1 % + 2 ms', USUAL_DRIFT],
  ['1 % + 2 ms, whole ms', ROUNDED_DRIFT],
  ['1 %', PROPORTIONAL_DRIFT],
];
const GRAINS = { exact: EXACT, 'worst phase': WORST, 'phase 0': ALIGNED, 'now >= when': WORST_AT };

describe('an allowance, beside the greatest error of rate', () => {
  const CASES: readonly (readonly [string, RateCase])[] = [
    ...TTLS_MS.flatMap((ttlMs) =>
      DRIFTS.flatMap(([title, drift]) =>
        Object.entries(GRAINS).map(
          ([grain, model]) =>
            [`TTL ${ttlMs}, D = ${title}, ${grain}`, { ttlMs, drift, delayUs: 0, grain: model }] as const,
        ),
      ),
    ),
    ...TTLS_MS.flatMap((ttlMs) =>
      [1_000, 5_000, 10_000, 50_000].map(
        (delayUs) => [`TTL ${ttlMs}, d = ${delayUs} µs`, { ttlMs, drift: USUAL_DRIFT, delayUs }] as const,
      ),
    ),
    ...[1_000, 10_000].map(
      (delayUs) => [`no allowance, d = ${delayUs} µs`, { ttlMs: 10_000, drift: NO_DRIFT, delayUs }] as const,
    ),
    ...TTLS_MS.flatMap((ttlMs) =>
      [WORST_AT, EXACT].map(
        (grain) =>
          [`TTL ${ttlMs}, cut stamps`, { ttlMs, drift: USUAL_DRIFT, delayUs: 0, cutStamps: true, grain }] as const,
      ),
    ),
  ];

  it.each(CASES)('%s', (_, wanted) => {
    const { ttlMs, drift, delayUs, grain = EXACT, cutStamps } = wanted;
    const ppm = greatestRateForExclusion(wanted);
    if (ppm < 0) return;
    const policy = cutStamps
      ? policyWith({ deviations: ['stamps-us:1000', 'deadline-counted-after-us:0'] })
      : REFERENCE;
    const stress: Stress = { ...CALM, policy, ttlMs, latencyUs: delayUs, grain };
    const allowed = allowanceUs(1000 * ttlMs, drift);
    const at = (driftPpm: number): number => leastAllowance({ ...stress, driftPpm })?.least ?? Number.NaN;
    // One ppm is worth more than a microsecond of these TTLs; what rounding of clocks takes is below that.
    const microsecond = 1;
    expect(at(ppm)).toBeLessThanOrEqual(allowed + microsecond);
    expect(at(ppm + 1)).toBeGreaterThan(allowed - microsecond);
  });
});

describe('an allowance, beside the greatest step', () => {
  const settings = [1_000, 10_000].flatMap((ttlMs) => [0, 1_000].map((delayUs) => ({ ttlMs, delayUs })));
  const wall = policyWith({ habits: { clock: 'wall' } });
  const monotonic = policyWith({ habits: { clock: 'monotonic' } });

  it.each(settings.flatMap((it) => [ALIGNED, WORST].map((grain) => ({ ...it, grain }))))('%j', (setting) => {
    const { ttlMs, delayUs, grain } = setting;
    const stress: Stress = { ...CALM, ttlMs, latencyUs: delayUs, grain };
    const allowed = allowanceUs(1000 * ttlMs, ROUNDED_DRIFT);
    for (const votes of [3, 4, 5]) {
      const stepping = votes - 2;
      const nodeStepUs = greatestNodeStep({ ...setting, votes, stepping });
      const struck = { ...stress, votes, struck: stepping };
      expect(least(leastAllowance({ ...struck, nodeStepUs }))).toBe(allowed);
      expect(least(leastAllowance({ ...struck, nodeStepUs: nodeStepUs + 1 }))).toBe(allowed + 1);
    }
    const holder: Stress = { ...stress, votes: 5, struck: 0 };
    const clientStepUs = greatestClientStep(setting);
    expect(least(leastAllowance({ ...holder, policy: wall, clientStepUs }))).toBe(allowed);
    const suspendUs = greatestClientStop(setting, 'monotonic');
    expect(least(leastAllowance({ ...holder, policy: monotonic, suspendUs }))).toBe(allowed);
    expect(least(leastAllowance({ ...holder, vmUs: greatestClientStop(setting, 'all') }))).toBe(allowed);
  });

  it.each(settings.flatMap((it) => [2_500, 5_000].map((ppm) => ({ ...it, ppm }))))('with rates, %j', (setting) => {
    const { ttlMs, delayUs, ppm } = setting;
    const nodeStepUs = greatestNodeStep({ ...setting, grain: EXACT });
    const stress: Stress = { ...CALM, ttlMs, latencyUs: delayUs, driftPpm: ppm, nodeStepUs };
    const allowed = allowanceUs(1000 * ttlMs, ROUNDED_DRIFT);
    expect(Math.abs((leastAllowance(stress)?.least ?? Number.NaN) - allowed)).toBeLessThanOrEqual(1);
  });
});

describe('a restart delay, beside the least absence', () => {
  const settings = [1_000, 10_000].flatMap((ttlMs) => [0, 1_000].map((delayUs) => ({ ttlMs, delayUs })));
  it.each(settings.flatMap((it) => [0, 5_000, 10_000].map((ppm) => ({ ...it, ppm, crashUs: it.delayUs }))))(
    '%j',
    (wanted) => {
      const { ttlMs, delayUs, ppm } = wanted;
      // Of rates that the usual allowance does not cover, a crash is not what lets a rival in first.
      if (ppm > 5_000) return;
      const stress: Stress = { ...CALM, ttlMs, latencyUs: delayUs, driftPpm: ppm, struck: 1 };
      expect(least(leastRestartDelay(stress, 'true-time'))).toBe(leastAbsence({ ...wanted, crashing: 1 }));
      const counted = least(leastRestartDelay(stress, 'time-of-day'));
      expect(Math.abs(counted - measuredDelay({ ...wanted, crashing: 1 }))).toBeLessThanOrEqual(1);
      if (ppm > 0) return;
      for (const stepUs of [1_000]) {
        const stepped = least(leastRestartDelay({ ...stress, nodeStepUs: stepUs }, 'time-of-day'));
        expect(Math.abs(stepped - measuredDelay({ ...wanted, stepUs }))).toBeLessThanOrEqual(1);
      }
    },
  );

  it.each([
    { votes: 4, crashing: 2 },
    { votes: 5, crashing: 3 },
  ])('%j', ({ votes, crashing }) => {
    const stress: Stress = { ...CALM, latencyUs: 1_000, votes, struck: crashing };
    const wanted = { ttlMs: 10_000, delayUs: 1_000, crashUs: 1_000, votes, crashing };
    expect(least(leastRestartDelay(stress, 'true-time'))).toBe(leastAbsence(wanted));
  });
});

describe('votes, beside the nodes that may forget', () => {
  const cases = [1, 2, 3, 4, 5, 6, 7].flatMap((nodes) => {
    const majority = Math.floor(nodes / 2) + 1;
    return Array.from({ length: nodes - majority + 1 }, (_, i) => ({ nodes, quorum: majority + i }));
  });
  it.each(cases)('%j', ({ nodes, quorum }) => {
    const policy = policyWith({ deviations: [`quorum:${quorum}`] });
    const outlives = Array.from({ length: nodes - quorum + 1 }, (_, i) => {
      const votes = quorum + i;
      return { votes, forgetting: leastForExclusion({ nodes, quorum, votes }) - 1 };
    });
    for (let struck = 0; struck <= nodes; struck++) {
      const found = leastVotes({ ...CALM, policy, nodes, struck });
      expect(found?.least ?? null).toBe(outlives.find(({ forgetting }) => forgetting >= struck)?.votes ?? null);
    }
  });
});

describe('a guard, beside the longest way of a write', () => {
  const cases: EffectCase[] = [1_000, 10_000].flatMap((ttlMs) =>
    [1, 1_000, 100_000, 500_000].flatMap((guardUs) => [0, 5_000].map((ppm) => ({ ttlMs, guardUs, ppm }))),
  );
  // Of a way, it does not matter what it is made of.
  const made: readonly (readonly [string, (us: number) => Way])[] = [
    ['of the message', (us) => ({ processUs: 0, sleepUs: 0, writeUs: us })],
    ['of a pause', (us) => ({ processUs: us, sleepUs: 0, writeUs: 0 })],
    [
      'of a pause, a sleep and the message',
      (us) => ({
        processUs: Math.floor(us / 2),
        sleepUs: Math.floor(us / 4),
        writeUs: us - Math.floor(us / 2) - Math.floor(us / 4),
      }),
    ],
  ];
  it.each(cases.flatMap((wanted) => made.map(([kind, wayOf]) => [kind, wanted, wayOf] as const)))(
    '%s, %j',
    (_, wanted, wayOf) => {
      const { ttlMs, guardUs, ppm } = wanted;
      const wayUs = longestWay(wanted);
      // A clock that counts a sleep.
      const policy = policyWith({ habits: { clock: 'wall' } });
      const stress: Stress = { ...CALM, policy, ttlMs, votes: 5, latencyUs: 1_000, driftPpm: ppm };
      expect(leastGuard(stress, wayOf(wayUs))?.least ?? Number.NaN).toBeLessThanOrEqual(guardUs + 1);
      expect(leastGuard(stress, wayOf(wayUs + 1))?.least ?? Number.NaN).toBeGreaterThan(guardUs);
    },
  );
});
