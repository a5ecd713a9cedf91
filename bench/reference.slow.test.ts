import { describe, expect, it } from 'vitest';
import { choiceOf } from '../deviations/index.js';
import { assumptions } from '../properties/assumptions.js';
import { type CoveragePoint, noCounts } from '../properties/coverage.js';
import { Monitors } from '../properties/index.js';
import { type Adversary, RandomStreams, RecordingAdversary, type Setup, World } from '../sim/index.js';
import { DEPLOYMENTS, deploymentOf, ReferenceWorkload } from './reference.js';
import { Player } from './workload.js';

const HISTORIES = 4_000;
const streams = new RandomStreams('within');

/** What no history of this workload is about: claims end by their release. */
const NOT_MET: readonly CoveragePoint[] = ['expiries', 'endsUnseen'];

describe('the reference workload', () => {
  it('goes through every kind of fault, and raises no alarm', () => {
    const player = new Player();
    for (let run = 0; run < HISTORIES; run++) player.play(run);
    expect(player.violations).toBe(0);
    const never = (Object.keys(player.counts) as CoveragePoint[]).filter((it) => player.counts[it] === 0);
    expect(never).toEqual(NOT_MET);
  });

  it('keeps to what the lock assumes', () => {
    for (let run = 0; run < 400; run++) {
      const { setup, forgets } = deploymentOf(run);
      // Only claims of four votes or five lose one: a vote is there to be spared.
      expect([run, broken(new ReferenceWorkload(streams, run, noCounts()), setup, forgets ? 4 : 3)]).toEqual([run, []]);
    }
  });

  it('has every kind of fault in each history, but for nodes that forget', () => {
    const kinds = DEPLOYMENTS.map(({ setup }, run) => {
      const { faults } = recorded(new ReferenceWorkload(streams, run, noCounts()), setup);
      return [...new Set(faults.map(({ kind }) => kind))].filter((kind) => kind !== 'data-loss').sort();
    });
    const all = ['clock-drift', 'clock-step', 'client-crash', 'crash', 'failover', 'partition', 'pause', 'reconfigure'];
    for (const some of kinds) expect(some).toEqual([...all, 'error-replies', 'suspend'].sort());
  });

  it('is the same each time', () => {
    const hashes = [0, 1].map(() => {
      const player = new Player();
      for (let run = 0; run < 100; run++) player.play(run);
      return player.hash.digest();
    });
    expect(hashes[0]).toBe(hashes[1]);
  });
});

function recorded(adversary: Adversary, setup: Setup): ReturnType<RecordingAdversary['schedule']> {
  const recording = new RecordingAdversary(adversary, setup.clients.length);
  new World(setup, recording, new Monitors(setup), false).run();
  return recording.schedule(setup, choiceOf(setup.policy));
}

function broken(adversary: Adversary, setup: Setup, votes: number): string[] {
  return assumptions(recorded(adversary, setup), setup.policy, { votes });
}
