import { choiceOf } from '../deviations/index.js';
import type { Counts } from '../properties/coverage.js';
import { Monitors } from '../properties/monitors/monitors.js';
import type { Schedule } from '../scenarios/index.js';
import { RecordingAdversary, type StreamSource, World } from '../sim/index.js';
import { DrawnAdversary, premiseStream } from './drawn.js';
import { drawPremise, type Premise } from './premise.js';
import { COMBINED, type Tactics } from './tactics.js';
import type { Weather } from './weather.js';

/** One run of a random search, finished. */
export interface DrawnRun {
  readonly world: World;
  readonly monitors: Monitors;
  readonly premise: Premise;
  readonly adversary: DrawnAdversary;
}

/** Makes run number `run` of a search, to its end: the same streams, number and tactics give the same run. */
export function drawRun(
  weather: Weather,
  streams: StreamSource,
  run: number,
  counts?: Counts,
  tactics: Tactics = COMBINED,
): DrawnRun {
  const premise = drawPremise(weather, tactics, premiseStream(streams, run));
  const adversary = new DrawnAdversary(weather, premise, streams, run, counts);
  const monitors = new Monitors(premise.setup, counts);
  const world = new World(premise.setup, adversary, monitors, false);
  world.run();
  return { world, monitors, premise, adversary };
}

/** Makes the run again and writes it down: the schedule replays to the same trace without any streams. */
export function recordRun(
  weather: Weather,
  streams: StreamSource,
  run: number,
  tactics: Tactics = COMBINED,
): { schedule: Schedule; hash: string } {
  const premise = drawPremise(weather, tactics, premiseStream(streams, run));
  const { setup } = premise;
  const drawn = new DrawnAdversary(weather, premise, streams, run);
  const recording = new RecordingAdversary(drawn, setup.clients.length);
  const monitors = new Monitors(setup);
  const world = new World(setup, recording, monitors, false);
  world.run();
  return { schedule: recording.schedule(setup, choiceOf(setup.policy)), hash: world.chronicle.trace.digest() };
}
