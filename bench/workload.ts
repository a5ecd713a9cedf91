import { type Counts, noCounts } from '../properties/coverage.js';
import { Monitors } from '../properties/index.js';
import { RandomStreams, RollingHash, World } from '../sim/index.js';
import { deploymentOf, ReferenceWorkload } from './reference.js';

/** Plays the histories of the reference workload with all monitors, and adds up what happened. */
export class Player {
  faults = 0;
  events = 0;
  steps = 0;
  violations = 0;
  endUs = 0;
  histories = 0;
  counts: Counts = noCounts();
  readonly hash: RollingHash = new RollingHash();
  private readonly streams = new RandomStreams('reference workload');
  private readonly most: number | undefined;
  private world: World | null = null;
  private monitors: Monitors | null = null;

  /** @param most - Faults of a history, where fewer than one of every kind are wanted. */
  constructor(most?: number) {
    this.most = most;
  }

  reset(): void {
    Object.assign(this, { faults: 0, events: 0, steps: 0, violations: 0, endUs: 0, histories: 0, counts: noCounts() });
    this.hash.reset();
  }

  /** @param alter - Changes the monitors before the history begins. */
  play(run: number, alter?: (monitors: Monitors) => void): void {
    const { setup } = deploymentOf(run);
    const monitors = this.monitors ?? new Monitors(setup, this.counts);
    if (this.monitors !== null) monitors.reset(setup, this.counts);
    this.monitors = alter === undefined ? monitors : null;
    alter?.(monitors);
    const workload = new ReferenceWorkload(this.streams, run, this.counts, this.most);
    const world = this.world ?? new World(setup, workload, monitors, false);
    if (this.world !== null) world.reset(setup, workload, monitors, false);
    this.world = world;
    world.run();
    this.histories++;
    this.faults += workload.planned;
    this.events += world.events;
    this.endUs += world.now;
    this.violations += monitors.violations.length;
    for (const client of world.clients) this.steps += client.steps;
    this.hash.add(world.context.trace.value());
  }
}
