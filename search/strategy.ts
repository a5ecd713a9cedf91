import type { Counts } from '../properties/coverage.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { Streams } from '../sim/index.js';
import { type DrawnRun, drawRun, recordRun } from './drawn-run.js';
import type { Draws } from './draws.js';
import { Guided } from './guided.js';
import type { NearMiss } from './near-miss.js';
import type { StrategyName } from './strategy-info.js';
import { COMBINED, type Tactics, UNIFORM } from './tactics.js';
import type { Weather } from './weather.js';

/**
 * A way to search: begins the runs of a search, at run `from` of it. Where runs are not independent, what follows depends on
 * the near misses that it begins with as well.
 */
export type Strategy = (weather: Weather, streams: Streams, from?: number, inputs?: readonly NearMiss[]) => Draws;

/** All strategies, by name. */
export const STRATEGIES: Readonly<Record<StrategyName, Strategy>> = {
  uniform: independent(UNIFORM),
  swarm: independent({ ...UNIFORM, swarm: true }),
  biased: independent({ ...UNIFORM, biased: true }),
  structured: independent({ ...UNIFORM, structured: true }),
  combination: independent(COMBINED),
  guided: (weather, streams, from, inputs) => new Guided(weather, streams, from, inputs),
};

function independent(tactics: Tactics): Strategy {
  return (weather, streams, from = 0) => new Independent(weather, streams, tactics, from);
}

/** Run after run, each from streams of its own. */
class Independent implements Draws {
  readonly genome: null = null;
  private readonly weather: Weather;
  private readonly streams: Streams;
  private readonly tactics: Tactics;
  private runs: number;

  constructor(weather: Weather, streams: Streams, tactics: Tactics, from: number) {
    this.weather = weather;
    this.streams = streams;
    this.tactics = tactics;
    this.runs = from;
  }

  next(_found: readonly PropertyId[], counts: Counts): DrawnRun {
    return drawRun(this.weather, this.streams, this.runs++, counts, this.tactics);
  }

  record(): { readonly schedule: Schedule; readonly hash: string } {
    return recordRun(this.weather, this.streams, this.runs - 1, this.tactics);
  }

  nearest(): readonly NearMiss[] {
    return [];
  }
}
