import { expect, it } from 'vitest';
import { ScriptedAdversary, setupOf, World } from '../../sim/index.js';
import { lock, type Parts, schedule } from '../../sim/testing/schedule.js';
import { Monitors } from './monitors.js';

/** How near a run came: µs from the end of a claim to the loss of its majority, and votes to spare after a loss. */
function closeness(parts: Parts): { readonly gapUs: number; readonly spareVotes: number; readonly isNear: boolean } {
  const plan = schedule(parts);
  const monitors = new Monitors(setupOf(plan));
  const world = new World(setupOf(plan), new ScriptedAdversary(plan), monitors, false);
  world.run();
  const { gapUs, spareVotes, isNear } = monitors.closeness;
  return { gapUs, spareVotes, isNear };
}

const NONE = Number.POSITIVE_INFINITY;

it('measures from the end of a claim to the loss of its majority', () => {
  // The claim of a TTL of 10 s ends at 9 898 ms; its keys are set after 1 ms and are gone 10 001 ms later.
  expect(closeness({})).toEqual({ gapUs: 104_000, spareVotes: NONE, isNear: false });
  const step = (byUs: number): Parts => ({
    faults: ['n0', 'n1', 'n2'].map((process) => ({ kind: 'clock-step', process, atUs: 5_000, byUs })),
  });
  expect(closeness(step(103_000))).toEqual({ gapUs: 1_000, spareVotes: NONE, isNear: true });
  expect(closeness(step(102_000))).toEqual({ gapUs: 2_000, spareVotes: NONE, isNear: false });
});

it('counts the votes that a claim has to spare after it lost some', () => {
  const forget = (...nodes: string[]): Parts => ({
    faults: nodes.map((node) => ({ kind: 'data-loss', node, atUs: 5_000 })),
  });
  expect(closeness(forget('n0'))).toMatchObject({ spareVotes: 1, isNear: false });
  expect(closeness(forget('n0', 'n1'))).toMatchObject({ spareVotes: 0, isNear: true });
  expect(closeness(forget('n0', 'n1', 'n2'))).toMatchObject({ spareVotes: -1, isNear: true });
});

it('says nothing of locks that are released in time, or whose client is dead', () => {
  expect(closeness({ locks: [[lock(0, { holdUs: 5_000 })]] })).toEqual({
    gapUs: NONE,
    spareVotes: NONE,
    isNear: false,
  });
  const dead = closeness({ faults: [{ kind: 'client-crash', client: 'c1', atUs: 5_000 }] });
  expect(dead).toEqual({ gapUs: NONE, spareVotes: NONE, isNear: false });
});
