import type { Counts } from '../properties/coverage.js';
import type { Closeness } from '../properties/monitors/closeness.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { Stream, Streams } from '../sim/index.js';
import { Concern } from './drawn.js';
import { type DrawnRun, drawRun, recordRun } from './drawn-run.js';
import type { Draws } from './draws.js';
import { type Edit, type Gene, type Genome, GenomeStreams } from './genome.js';
import type { NearMiss } from './near-miss.js';
import type { Weather } from './weather.js';

const PERCENT = 10_000;
/** Runs that are drawn afresh, so that the search does not get stuck. */
const FRESH_PERCENT = 50;
/** Runs kept for each kind of situation and each measure. */
const KEPT = 4;
/** Edits that a gene has at most; older ones are then replaced. */
const MOST_EDITS = 6;
const GENES = 5;

/**
 * Keeps the runs that came nearest to a violation and changes them: in the draws, not in what was drawn, so that what
 * comes out is again a run of the same weather and keeps its assumptions. Which runs are kept is told apart by what they
 * strain and for how long, and by measure: votes to spare, or time to the end of a claim.
 */
export class Guided implements Draws {
  private readonly weather: Weather;
  private readonly streams: Streams;
  private readonly niches = new Map<string, NearMiss[]>();
  private readonly names: string[] = [];
  private readonly inputs: readonly NearMiss[];
  private runs: number;
  genome: Genome = [];

  /** Begins with run `from`, and with near misses of other runs of the same search. */
  constructor(weather: Weather, streams: Streams, from = 0, inputs: readonly NearMiss[] = []) {
    this.weather = weather;
    this.streams = streams;
    this.runs = from;
    this.inputs = inputs;
    for (const it of inputs) this.keep(it);
  }

  next(found: readonly PropertyId[], counts: Counts): DrawnRun {
    const run = this.runs++;
    this.genome = this.choose(run);
    const source = new GenomeStreams(this.streams, this.genome);
    const drawn = drawRun(this.weather, source, run, counts);
    // What has been found is no near miss: changes of it would find it again.
    if (drawn.monitors.violations.some(({ property }) => found.includes(property))) return drawn;
    const { strain, ttlMs } = drawn.premise;
    const draws = this.genome.map((_, concern) => source.drawn(concern));
    for (const [measure, distance] of distances(drawn.monitors.closeness)) {
      this.keep({ niche: `${measure} ${strain} ${ttlMs}`, distance, genome: this.genome, draws });
    }
    return drawn;
  }

  record(): { readonly schedule: Schedule; readonly hash: string } {
    return recordRun(this.weather, new GenomeStreams(this.streams, this.genome), this.runs - 1);
  }

  nearest(): NearMiss[] {
    const best = [...this.niches.values()].flatMap(([first]) => first ?? []);
    return best.filter((it) => !this.inputs.includes(it)).sort((a, b) => (a.niche < b.niche ? -1 : 1));
  }

  private choose(run: number): Genome {
    const draw = this.streams.stream(run, Concern.guide);
    const [first, ...rest] = this.names;
    if (first === undefined || draw.chance(FRESH_PERCENT * PERCENT)) return fresh(run);
    const niche = this.niches.get(draw.pick([first, ...rest])) ?? [];
    const parent = niche[draw.below(niche.length)];
    return parent === undefined ? fresh(run) : mutate(parent, run, draw);
  }

  private keep(it: NearMiss): void {
    let niche = this.niches.get(it.niche);
    if (niche === undefined) {
      niche = [];
      this.niches.set(it.niche, niche);
      this.names.push(it.niche);
    }
    // The newer of two that are equally near: so the search moves on.
    const at = niche.findIndex((kept) => it.distance <= kept.distance);
    if (at >= 0) niche.splice(at, 0, it);
    else niche.push(it);
    niche.length = Math.min(niche.length, KEPT);
  }
}

function distances({ gapUs, slackUs, spareVotes }: Closeness): [string, number][] {
  const measured: [string, number][] = [];
  if (Number.isFinite(gapUs)) measured.push(['gap', gapUs]);
  if (Number.isFinite(slackUs)) measured.push(['slack', slackUs]);
  if (Number.isFinite(spareVotes)) measured.push(['votes', spareVotes]);
  return measured;
}

function fresh(run: number): Genome {
  return Array.from({ length: GENES }, () => ({ run, edits: [] }));
}

/** Changes the draws of one concern: all of them, those from one on, or a single one. */
function mutate({ genome, draws }: NearMiss, run: number, draw: Stream): Genome {
  const concern = draw.pick([Concern.work, Concern.fault, Concern.fate, Concern.premise, Concern.jitter]);
  return genome.map((gene, index) => (index === concern ? edited(gene, draws[index] ?? 0, run, draw) : gene));
}

function edited({ run: old, edits }: Gene, draws: number, run: number, draw: Stream): Gene {
  const kind = draw.below(10);
  if (kind === 0 || draws === 0) return { run, edits: [] };
  const edit: Edit = { at: draw.below(draws), run, only: kind < 7 };
  // What is cut off at the edit has no more say.
  const kept = edit.only ? edits.filter((it) => it.at !== edit.at) : edits.filter((it) => it.at < edit.at);
  return { run: old, edits: [...kept.slice(1 - MOST_EDITS), edit].sort((a, b) => a.at - b.at) };
}
