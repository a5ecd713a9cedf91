import { expect, it } from 'vitest';
import type { Crash, Fault } from '../scenarios/index.js';
import { RandomStreams } from '../sim/index.js';
import { type FaultModel, NO_FAULTS, NO_STRETCH, WITHIN_ASSUMPTIONS } from './fault-model.js';
import { recordRun } from './generated-run.js';

const RUNS = 300;

/** Faults that are drawn. */
function drawn(faultModel: Partial<FaultModel>): Fault[][] {
  const all = { ...WITHIN_ASSUMPTIONS, ...faultModel };
  const streams = new RandomStreams('ways');
  return Array.from({ length: RUNS }, (_, run) => [...recordRun(all, streams, run).schedule.faults]);
}

const RESTART = { ...NO_STRETCH, 'restart-delay': 1 };
const isCrash = (fault: Fault): fault is Crash => fault.kind === 'crash';

it.each([
  ['none', 0],
  ['everysec', 0],
  ['always', 0],
  ['everysec', null],
] as const)('processes die and power goes only where that is wanted: persistence %s', (persistence, restartDelayUs) => {
  const only = { ...NO_FAULTS, stretch: RESTART, persistence, restartDelayUs };
  const crashes = drawn({ ...only, crashes: 1 }).map((faults) => faults.filter(isCrash));
  expect(Math.max(...crashes.map((some) => some.length))).toBe(1);
  expect(crashes.flat().filter(({ power }) => power === true)).toEqual([]);
  const losses = drawn({ ...only, powerLosses: 1 }).map((faults) => faults.filter(isCrash));
  expect(Math.max(...losses.map((some) => some.length))).toBe(1);
  expect(losses.flat().filter(({ power }) => power !== true)).toEqual([]);
  const both = drawn({ ...only, crashes: 1, powerLosses: 1 }).map((faults) => faults.filter(isCrash));
  expect(Math.max(...both.map((some) => some.length))).toBe(2);
  expect(Math.max(...both.map((some) => some.filter(({ power }) => power === true).length))).toBe(1);
});

it('of all that may happen by default, one kind can be left out', () => {
  const withoutCrashes = drawn({ crashes: 0 }).flat().filter(isCrash);
  expect(withoutCrashes.length).toBeGreaterThan(0);
  expect(withoutCrashes.filter(({ power }) => power !== true)).toEqual([]);
  const withoutPower = drawn({ powerLosses: 0 }).flat().filter(isCrash);
  expect(withoutPower.length).toBeGreaterThan(0);
  expect(withoutPower.filter(({ power }) => power === true)).toEqual([]);
  expect(drawn({ crashes: 0, powerLosses: 0 }).flat().filter(isCrash)).toEqual([]);
  for (const [limit, kind] of [
    ['pauses', 'pause'],
    ['refusals', 'error-replies'],
    ['partitions', 'partition'],
  ] as const) {
    expect(
      drawn({})
        .flat()
        .filter((it) => it.kind === kind),
    ).not.toEqual([]);
    expect(
      drawn({ [limit]: 0 })
        .flat()
        .filter((it) => it.kind === kind),
    ).toEqual([]);
  }
});

it('only faults that are wanted are injected into nodes from the beginning to the end', () => {
  const faults = drawn({ ...NO_FAULTS, stretch: NO_STRETCH, pauses: 1 }).flat();
  expect([...new Set(faults.map(({ kind }) => kind))].sort()).toEqual(['pause', 'reconfigure']);
});
