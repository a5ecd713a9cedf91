import { choiceOf } from '../deviations/index.js';
import type { Counts } from '../properties/coverage.js';
import { Monitors } from '../properties/monitors/monitors.js';
import type { Schedule } from '../scenarios/index.js';
import { RecordingAdversary, type StreamSource, World } from '../sim/index.js';
import type { FaultModel } from './fault-model.js';
import { premiseStream, RandomAdversary } from './random-adversary.js';
import { drawPremise, type RunConfig } from './run-config.js';
import { COMBINED, type Tactics } from './tactics.js';

/** One run of a random search, finished. */
interface GeneratedRun {
  readonly world: World;
  readonly monitors: Monitors;
  readonly runConfig: RunConfig;
  readonly adversary: RandomAdversary;
}

/**
 * Makes runs one after the other in the same world, which is faster than a new one for each. What one run leaves may be
 * looked at until the next begins.
 */
export class RunGenerator {
  private world: World | null = null;
  private monitors: Monitors | null = null;

  /** As {@link generateRun}. */
  generate(
    faultModel: FaultModel,
    streams: StreamSource,
    run: number,
    counts?: Counts,
    tactics: Tactics = COMBINED,
  ): GeneratedRun {
    const runConfig = drawPremise(faultModel, tactics, premiseStream(streams, run));
    const adversary = new RandomAdversary(faultModel, runConfig, streams, run, counts);
    const { setup } = runConfig;
    if (this.monitors === null) this.monitors = new Monitors(setup, counts);
    else this.monitors.reset(setup, counts);
    const { monitors } = this;
    if (this.world === null) this.world = new World(setup, adversary, monitors, false);
    else this.world.reset(setup, adversary, monitors, false);
    const { world } = this;
    world.run();
    return { world, monitors, runConfig, adversary };
  }
}

/** Makes run number `run` of a search, to its end: the same streams, number and tactics give the same run. */
export function generateRun(
  faultModel: FaultModel,
  streams: StreamSource,
  run: number,
  counts?: Counts,
  tactics?: Tactics,
): GeneratedRun {
  return new RunGenerator().generate(faultModel, streams, run, counts, tactics);
}

/** Makes the run again and writes it down: the schedule replays to the same trace without any streams. */
export function recordRun(
  faultModel: FaultModel,
  streams: StreamSource,
  run: number,
  tactics: Tactics = COMBINED,
): { schedule: Schedule; hash: string } {
  const runConfig = drawPremise(faultModel, tactics, premiseStream(streams, run));
  const { setup } = runConfig;
  const drawn = new RandomAdversary(faultModel, runConfig, streams, run);
  const recording = new RecordingAdversary(drawn, setup.clients.length);
  const monitors = new Monitors(setup);
  const world = new World(setup, recording, monitors, false);
  world.run();
  return { schedule: recording.schedule(setup, choiceOf(setup.policy)), hash: world.context.trace.digest() };
}
