import type { PropertyId, Schedule } from '../../scenarios/index.js';
import type { Stream, Streams } from '../../sim/index.js';
import type { Counts } from '../coverage.js';
import type { Closeness } from '../monitors/closeness.js';
import { Concern } from './drawn.js';
import { type DrawnRun, drawRun, recordRun } from './drawn-run.js';
import type { Draws } from './draws.js';
import { type Edit, type Gene, type Genome, GenomeStreams } from './genome.js';
import type { Weather } from './weather.js';

const PERCENT = 10_000;
/** Runs that are drawn afresh, so that the search does not get stuck. */
const FRESH_PERCENT = 50;
/** Runs kept for each kind of situation and each measure. */
const KEPT = 4;
/** Edits that a gene has at most; older ones are then replaced. */
const MOST_EDITS = 6;
const GENES = 5;

/** A run that came near a violation, by how near, and how often it drew for each concern. */
interface Kept {
  readonly genome: Genome;
  readonly distance: number;
  readonly draws: readonly number[];
}

/**
 * Keeps the runs that came nearest to a violation and changes them: in the draws, not in what was drawn, so that what
 * comes out is again a run of the same weather and keeps its assumptions. Which runs are kept is told apart by what they
 * strain and for how long, and by measure: votes to spare, or time to the end of a claim.
 */
export class Guided implements Draws {
  private readonly weather: Weather;
  private readonly streams: Streams;
  private readonly niches = new Map<string, Kept[]>();
  private readonly names: string[] = [];
  private genome: Genome = [];
  private runs = 0;

  constructor(weather: Weather, streams: Streams) {
    this.weather = weather;
    this.streams = streams;
  }

  next(stopAt: readonly PropertyId[], counts: Counts): DrawnRun {
    const run = this.runs++;
    this.genome = this.choose(run);
    const source = new GenomeStreams(this.streams, this.genome);
    const drawn = drawRun(this.weather, source, run, stopAt, counts);
    const { strain, ttlMs } = drawn.situation;
    const draws = this.genome.map((_, concern) => source.drawn(concern));
    for (const [measure, distance] of distances(drawn.monitors.closeness)) {
      this.keep(`${measure} ${strain} ${ttlMs}`, { genome: this.genome, distance, draws });
    }
    return drawn;
  }

  record(): { readonly schedule: Schedule; readonly hash: string } {
    return recordRun(this.weather, new GenomeStreams(this.streams, this.genome), this.runs - 1);
  }

  private choose(run: number): Genome {
    const draw = this.streams.stream(run, Concern.guide);
    const [first, ...rest] = this.names;
    if (first === undefined || draw.chance(FRESH_PERCENT * PERCENT)) return fresh(run);
    const niche = this.niches.get(draw.pick([first, ...rest])) ?? [];
    const parent = niche[draw.below(niche.length)];
    return parent === undefined ? fresh(run) : mutate(parent, run, draw);
  }

  private keep(name: string, it: Kept): void {
    let niche = this.niches.get(name);
    if (niche === undefined) {
      niche = [];
      this.niches.set(name, niche);
      this.names.push(name);
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
function mutate({ genome, draws }: Kept, run: number, draw: Stream): Genome {
  const concern = draw.pick([Concern.work, Concern.fault, Concern.fate, Concern.situation, Concern.jitter]);
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
