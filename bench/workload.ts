import { type Counts, noCounts } from '../properties/coverage.js';
import { Monitors } from '../properties/index.js';
import { type Adversary, RollingHash, type Setup, Streams, World } from '../sim/index.js';
import { FORMER_SETUP, FormerWorkload } from './former.js';
import { deploymentOf, ReferenceWorkload } from './reference.js';

/** What a workload does in its histories. */
export interface Work {
  readonly setupOf: (run: number) => Setup;
  readonly adversary: (streams: Streams, run: number, counts: Counts) => Adversary;
}

/** The reference workload: every kind of fault, within the assumptions of the lock. */
export const REFERENCE_WORK: Work = {
  setupOf: (run) => deploymentOf(run).setup,
  adversary: (streams, run, counts) => new ReferenceWorkload(streams, run, counts),
};

/** What was measured before, for comparison in the same run. */
export const FORMER_WORK: Work = {
  setupOf: () => FORMER_SETUP,
  adversary: (streams, run) => new FormerWorkload(streams, run),
};

/** Plays the histories of a workload with all monitors, and adds up what happened. */
export class Player {
  events = 0;
  steps = 0;
  violations = 0;
  endUs = 0;
  histories = 0;
  counts: Counts = noCounts();
  readonly hash: RollingHash = new RollingHash();
  private readonly work: Work;
  private readonly streams = new Streams('reference workload');

  constructor(work: Work) {
    this.work = work;
  }

  reset(): void {
    Object.assign(this, { events: 0, steps: 0, violations: 0, endUs: 0, histories: 0, counts: noCounts() });
    this.hash.reset();
  }

  /** @param alter - Changes the monitors before the history begins. */
  play(run: number, alter?: (monitors: Monitors) => void): void {
    const setup = this.work.setupOf(run);
    const monitors = new Monitors(setup, [], this.counts);
    alter?.(monitors);
    const world = new World(setup, this.work.adversary(this.streams, run, this.counts), monitors, false);
    world.run();
    this.histories++;
    this.events += world.events;
    this.endUs += world.now;
    this.violations += monitors.violations.length;
    for (const client of world.clients) this.steps += client.steps;
    this.hash.add(world.chronicle.trace.value());
  }
}
