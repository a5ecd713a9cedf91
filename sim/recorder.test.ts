import { describe, expect, it } from 'vitest';
import { choiceOf } from '../deviations/index.js';
import { formatSchedule, parseScheduleText, type Schedule } from '../scenarios/index.js';
import type { Adversary } from './adversary.js';
import { Observer } from './observer.js';
import { RecordingAdversary } from './recorder.js';
import { ScriptedAdversary } from './scripted.js';
import { setupOf, simulate } from './simulate.js';
import { lock, schedule, unreached } from './testing/schedule.js';
import { World } from './world.js';

/** Runs a schedule, and has it written down again on the way. */
function recorded(plan: Schedule): { readonly schedule: Schedule; readonly hash: string } {
  const setup = setupOf(plan);
  const adversary = new RecordingAdversary(new ScriptedAdversary(plan), plan.clients.length);
  const world = new World(setup, adversary, new Observer(), false);
  world.run();
  return { schedule: adversary.schedule(setup, choiceOf(setup.policy)), hash: world.context.trace.digest() };
}

describe('a run that is written down', () => {
  const plan = schedule({
    cluster: { replicaLagUs: 100, clocks: [{ process: 'c2', offsetUs: -5, ratePpm: 3 }] },
    policy: { settings: { tries: 4 } },
    locks: [
      [lock(0, { holdUs: 3_000 }), lock(20_000, { resources: ['b', 'a'] })],
      [lock(1_000, { jitterPpm: [1, 2, 500_000, 500_000], extensions: [{ afterUs: 5, ttlMs: 700 }] })],
    ],
    faults: [
      { kind: 'crash', node: 'n2', atUs: 1_000, edge: 'after', restartAfterUs: 0 },
      { kind: 'failover', node: 'n1', atUs: 30_000 },
      { kind: 'partition', atUs: 40_000, from: ['c1'], to: ['n0', 'c2'], oneWay: true, forUs: 1 },
    ],
    fates: [
      ...unreached('c1', 'n3'),
      { client: 'c1', operation: 'release', node: 'n0', direction: 'request', delayUs: 0, duplicateDelayUs: 9 },
      { client: 'c1', operation: 'release', node: 'n0', direction: 'reply', send: 1, lost: true, duplicateDelayUs: 0 },
    ],
    untilUs: 2_000_000,
  });

  it('replays to the same trace, also after a visit to a file', () => {
    const { schedule: written, hash } = recorded(plan);
    expect(hash).toBe(simulate(plan).hash);
    expect(simulate(written).hash).toBe(hash);
    expect(simulate(parseScheduleText(formatSchedule(written), 'a file')).hash).toBe(hash);
  });

  it('replays the same when its locks were asked for one by one, each for another resource', () => {
    const resources = ['d', 'c', 'b', 'a'];
    const left = [2, 2];
    const late: Adversary = {
      nextLock: (client, { now, clients }) => {
        const busy = clients[client]?.locks.at(-1)?.state.phase;
        if ((busy !== undefined && busy !== 'released') || (left[client] ?? 0) === 0) return null;
        left[client] = (left[client] ?? 0) - 1;
        return lock(now + 1 + client, { resources: [resources.pop() ?? 'e', 'z'], holdUs: 1_000 });
      },
      jitterPpm: () => 123_456,
      fate: () => {},
      nextFault: () => null,
    };
    const setup = { ...setupOf(plan), untilUs: 3_000_000 };
    const adversary = new RecordingAdversary(late, setup.clients.length);
    const world = new World(setup, adversary, new Observer(), false);
    world.run();
    const written = adversary.schedule(setup, choiceOf(setup.policy));
    expect(written.clients.flatMap(({ locks }) => locks)).toHaveLength(4);
    expect(simulate(written).hash).toBe(world.context.trace.digest());
  });

  it('keeps what was chosen and leaves out what goes without saying', () => {
    const { schedule: written } = recorded(plan);
    expect(written.faults).toEqual(plan.faults);
    expect(new Set(written.fates)).toEqual(new Set(plan.fates));
    expect(written.clients[1]?.locks[0]?.jitterPpm).toEqual([1, 2]);
    expect(recorded(written).schedule).toEqual(written);
  });
});
