import { expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { type ClientView, policyFor } from './index.js';
import { setupOf } from './simulate.js';
import { lock, type Parts, schedule, story } from './testing/schedule.js';

/** Both clients hold a lock of their own from 2 ms on, and lose it at 9 898 ms by their clocks. */
function ends(views: readonly ClientView[], faults: readonly Fault[] = []): string[] {
  const parts: Parts = { locks: [[lock(0)], [lock(0, { resources: ['b'] })]], views, faults };
  return story(parts, 'expired');
}

const BACK: readonly Fault[] = ['c1', 'c2'].map((process) => ({
  kind: 'clock-step',
  process,
  atUs: 5_000_000,
  byUs: -200_000,
}));

it('clients of one schedule read different clocks', () => {
  expect(ends([], BACK)).toEqual(['9898000 c1 expired', '9898000 c2 expired']);
  expect(ends([{ timing: { clock: 'wall' } }], BACK)).toEqual(['9898000 c2 expired', '10098000 c1 expired']);
  expect(ends([{}, { timing: { clock: 'wall' } }], BACK)).toEqual(['9898000 c1 expired', '10098000 c2 expired']);
});

it('a clock that stops in a suspend is that of one client', () => {
  const faults: Fault[] = ['c1', 'c2'].map((process) => ({ kind: 'suspend', process, atUs: 5_000_000, forUs: 1_000 }));
  const views = [{ timing: { clock: 'monotonic' } }, { timing: { clock: 'boot' } }] as const;
  expect(ends(views, faults)).toEqual(['9898000 c2 expired', '9899000 c1 expired']);
});

it('one client counts a relative validity, late, and the other an absolute deadline', () => {
  const late = { timing: { deadline: 'deadline-counted-after-us:7000' } } as const;
  expect(ends([late])).toEqual(['9898000 c2 expired', '9905000 c1 expired']);
});

it('what a client has for itself is told of, and only of it', () => {
  const plan = schedule({ locks: [[lock(0)], [lock(0)]], views: [{}, { timing: { clock: 'wall' } }] });
  const setup = setupOf(plan);
  expect([0, 1].map((client) => policyFor(setup, client).habits.clock)).toEqual(['boot', 'wall']);
  expect(policyFor(setup, 0)).toBe(setup.policy);
});
