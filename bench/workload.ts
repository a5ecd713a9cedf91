import { type Counts, noCounts } from '../properties/coverage.js';
import { Monitors } from '../properties/index.js';
import { RollingHash, Streams, World } from '../sim/index.js';
import { deploymentOf, FAULTS, ReferenceWorkload } from './reference.js';

/** Plays the histories of the reference workload with all monitors, and adds up what happened. */
export class Player {
  events = 0;
  steps = 0;
  violations = 0;
  endUs = 0;
  histories = 0;
  counts: Counts = noCounts();
  readonly hash: RollingHash = new RollingHash();
  private readonly streams = new Streams('reference workload');
  private readonly faults: number;

  /** @param faults - Of a history. */
  constructor(faults: number = FAULTS) {
    this.faults = faults;
  }

  reset(): void {
    Object.assign(this, { events: 0, steps: 0, violations: 0, endUs: 0, histories: 0, counts: noCounts() });
    this.hash.reset();
  }

  /** @param alter - Changes the monitors before the history begins. */
  play(run: number, alter?: (monitors: Monitors) => void): void {
    const { setup } = deploymentOf(run);
    const monitors = new Monitors(setup, [], this.counts);
    alter?.(monitors);
    const world = new World(setup, new ReferenceWorkload(this.streams, run, this.counts, this.faults), monitors, false);
    world.run();
    this.histories++;
    this.events += world.events;
    this.endUs += world.now;
    this.violations += monitors.violations.length;
    for (const client of world.clients) this.steps += client.steps;
    this.hash.add(world.chronicle.trace.value());
  }
}
