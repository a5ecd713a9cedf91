import { RandomStreams } from '../../sim/index.js';
import { poisson } from './draws.js';
import { type DrawnEvent, drawEvent, type EventClass } from './event-classes.js';
import { drawHold, type HoldRun, HoldRunner } from './hold.js';
import type { CauseName, RiskModel } from './model.js';
import type { Stratum } from './strata.js';

/** Runs of a stratum, from number `from` to `to`, without `to`. Plain data, for workers. */
export interface StratumTask {
  readonly model: RiskModel;
  readonly stratum: Stratum;
  readonly seed: string;
  readonly from: number;
  readonly to: number;
}

/** The outcome of runs of a stratum. */
export interface StratumCounts {
  readonly runs: number;
  readonly hits: number;
  /** Hits of runs with an odd number. */
  readonly odd: number;
  readonly overlap: number;
  readonly late: number;
  readonly disordered: number;
  /** Of the hits, how many need exactly these causes: their names with `+` between, or `` for none. */
  readonly causes: Readonly<Record<string, number>>;
  /** The first run of each of these. */
  readonly examples: Readonly<Record<string, number>>;
}

/** No runs at all. */
export const NO_RUNS: StratumCounts = {
  runs: 0,
  hits: 0,
  odd: 0,
  overlap: 0,
  late: 0,
  disordered: 0,
  causes: {},
  examples: {},
};

/** Both together. */
export function addCounts(a: StratumCounts, b: StratumCounts): StratumCounts {
  const causes: Record<string, number> = { ...a.causes };
  for (const [name, count] of Object.entries(b.causes)) causes[name] = (causes[name] ?? 0) + count;
  return {
    runs: a.runs + b.runs,
    hits: a.hits + b.hits,
    odd: a.odd + b.odd,
    overlap: a.overlap + b.overlap,
    late: a.late + b.late,
    disordered: a.disordered + b.disordered,
    causes,
    examples: { ...b.examples, ...a.examples },
  };
}

interface DrawnRun {
  readonly run: HoldRun;
  readonly events: readonly DrawnEvent[];
  readonly without: (kept: readonly DrawnEvent[]) => HoldRun;
}

/** Makes the runs of a stratum: the same seed, stratum and number give the same run. */
export class StratumRuns {
  private readonly task: Omit<StratumTask, 'from' | 'to'>;
  private readonly runner: HoldRunner;
  private readonly streams: RandomStreams;
  private readonly salt: number;

  constructor(task: Omit<StratumTask, 'from' | 'to'>) {
    this.task = task;
    this.runner = new HoldRunner(task.model);
    this.streams = new RandomStreams(task.seed);
    this.salt = saltOf(task.stratum.key);
  }

  /** Makes one run. */
  make(number: number): DrawnRun {
    const { model, stratum } = this.task;
    const { part } = stratum;
    const stream = (concern: number) => this.streams.stream(number, (this.salt + concern) | 0);
    const draw = drawHold(model, part.contention, part.holdUs, stream(0));
    const frequent = part.frequent.flatMap((of, i) => {
      const counting = stream(1_000 + i);
      return Array.from({ length: poisson(of.mean, counting) }, () => drawEvent(model, part.holdUs, of, counting));
    });
    const rare = stratum.events.map((of, i) => drawEvent(model, part.holdUs, of, stream(1 + i)));
    const events = [...frequent, ...rare];
    const without = (kept: readonly DrawnEvent[]): HoldRun => this.runner.run(draw, kept);
    return { run: without(events), events, without };
  }
}

/** Makes runs of a stratum and counts their outcomes. */
export function runStratum({ from, to, ...task }: StratumTask): StratumCounts {
  const runs = new StratumRuns(task);
  const counts = { runs: to - from, hits: 0, odd: 0, overlap: 0, late: 0, disordered: 0 };
  const causes: Record<string, number> = {};
  const examples: Record<string, number> = {};
  for (let number = from; number < to; number++) {
    const made = runs.make(number);
    const { run } = made;
    if (!run.violated) continue;
    counts.hits++;
    counts.odd += number % 2;
    if (run.overlap) counts.overlap++;
    if (run.late) counts.late++;
    if (run.disordered) counts.disordered++;
    const needed = neededCauses(made, task.stratum.events).join('+');
    causes[needed] = (causes[needed] ?? 0) + 1;
    examples[needed] ??= number;
  }
  return { ...counts, causes, examples };
}

/**
 * The causes without which a violation does not come: events are left out one by one, the rarest first, as long as it still
 * comes.
 */
function neededCauses({ events, without }: DrawnRun, rare: readonly EventClass[]): CauseName[] {
  const offset = events.length - rare.length;
  const order = rare.map((_, i) => i).sort((a, b) => (rare[a]?.mean ?? 0) - (rare[b]?.mean ?? 0));
  const tried = [...order.map((i) => offset + i), ...events.slice(0, offset).map((_, i) => i)];
  let kept = events;
  for (const i of tried) {
    const fewer = kept.filter((it) => it !== events[i]);
    if (without(fewer).violated) kept = fewer;
  }
  return [...new Set(kept.map(({ cause }) => cause))].sort();
}

/** A number of a text, for the streams of its runs: so that two models draw the same for what is the same in both. */
function saltOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}
