import { policyOf } from '../../deviations/index.js';
import { type Assumption, assumptions, type Judgement, type Violation } from '../../properties/index.js';
import type { Schedule } from '../../scenarios/index.js';
import type { Explained } from '../../search/index.js';
import { piecesOf } from '../../search/shrinking/pieces.js';
import { type Fails, oneStepsOf, reduction } from '../../search/shrinking/reduce.js';
import { aloneOf } from '../mix.js';
import { type LibraryRun, type LibraryRunOptions, replayLibraries, replayLibrariesAtOnce } from '../run.js';
import { inMacrotask } from '../runtime/drain.js';
import { natives } from '../runtime/natives.js';
import type { LockFactory } from '../session.js';
import { kindOf, type ViolationKind } from './kinds.js';

/** A failing schedule of a library, made small. */
interface ShrunkForLibrary {
  readonly schedule: Schedule;
  /** How many schedules were tried. */
  readonly tried: number;
  /** Whether every schedule that is one piece or one figure smaller was run by documented means, and none fails. */
  readonly minimal: boolean;
}

/** How a client has to fail for it to be the same failure. */
class Failure {
  private readonly subject: LockFactory;
  private readonly kind: ViolationKind;
  private readonly options: LibraryRunOptions;
  private readonly allowed: readonly Assumption[];
  /** Of the latest run. */
  events = 0;
  private mayOverlap: boolean | null = null;
  /** As many nodes as its clients know the addresses of, where these are their own, or are libraries' on other nodes each. */
  private readonly nodes: number | null;

  /** @param from - The schedule that fails: what it keeps is to be kept. */
  constructor(subject: LockFactory, kind: ViolationKind, from: Schedule, options: LibraryRunOptions) {
    this.subject = subject;
    this.kind = kind;
    this.options = options;
    const isFixed = subject.nodeAt !== undefined || subject.members !== undefined;
    this.nodes = isFixed ? from.cluster.nodes : null;
    this.allowed = assumptions(from, policyOf(from.policy));
  }

  /** Whether a schedule breaks no assumption that is not among the allowed. */
  keeps(schedule: Schedule): boolean {
    if (!this.isPossible(schedule)) return false;
    return assumptions(schedule, policyOf(schedule.policy)).every((it) => this.allowed.includes(it));
  }

  /** Whether all the nodes are there that its clients know the addresses of. */
  private isPossible(schedule: Schedule): boolean {
    return this.nodes === null || schedule.cluster.nodes === this.nodes;
  }

  /** The first run that is looked at says whether calls of one process may overlap. */
  isIn(run: LibraryRun): boolean {
    const { uncaught, monitors } = run;
    this.mayOverlap ??= monitors.overlap;
    if (monitors.overlap && !this.mayOverlap) return false;
    return uncaught.length === 0 && this.fails(run);
  }

  /** Of a schedule, drained at once. Only from a macrotask. */
  isOfAtOnce(schedule: Schedule): boolean {
    this.events = 0;
    if (!this.keeps(schedule)) return false;
    const run = replayLibrariesAtOnce(this.subject, schedule, this.options);
    this.events = run.run.events;
    return (
      this.isIn(run) &&
      aloneOf(this.subject, schedule).every(([it, its]) => !this.fails(replayLibrariesAtOnce(it, its)))
    );
  }

  /** Of a schedule, drained by documented means. */
  async isOf(schedule: Schedule): Promise<boolean> {
    if (!this.keeps(schedule) || !this.isIn(await replayLibraries(this.subject, schedule, this.options))) return false;
    return !(await this.isOfOneAlone(schedule));
  }

  /** Of two libraries beside each other: whether one of them fails on it by itself. */
  private async isOfOneAlone(schedule: Schedule): Promise<boolean> {
    for (const [it, its] of aloneOf(this.subject, schedule))
      if (this.fails(await replayLibraries(it, its))) return true;
    return false;
  }

  private fails({ violations }: LibraryRun): boolean {
    return violations.some((it) => kindOf(it) === this.kind);
  }

  async explain(schedule: Schedule): Promise<Explained['without']> {
    if (!this.isPossible(schedule)) return 'fails otherwise';
    if (!this.isIn(await replayLibraries(this.subject, schedule, this.options))) return 'passes';
    return this.keeps(schedule) && !(await this.isOfOneAlone(schedule)) ? 'fails' : 'fails otherwise';
  }
}

/** When shrinking ends early. */
interface ShrinkLimits {
  readonly mostTried?: number;
  readonly isStopped?: () => boolean;
}

/** Tries of one shrinking, and their events: counts, unlike a clock, end at the same place. */
const MOST_TRIED = 8_000;
const MOST_EVENTS = 1_500_000;

/**
 * Makes a failing schedule small: leaves out what can be left out and rounds times, as long as the client fails in the same
 * way, until nothing more can be. Candidates are drained at once; what comes out, and everything that is one step smaller,
 * is run by documented means. What fails among that is gone on from; a result that does not fail is given up.
 *
 * @param limits - When the smallest so far has to do: after so many schedules, or when it is asked to stop.
 */
export async function shrinkForLibrary(
  subject: LockFactory,
  schedule: Schedule,
  kind: ViolationKind,
  options: LibraryRunOptions = {},
  { mostTried = MOST_TRIED, isStopped = () => false }: ShrinkLimits = {},
): Promise<ShrunkForLibrary> {
  const failure = new Failure(subject, kind, schedule, options);
  let [tried, events] = [0, 0];
  const isOver = (): boolean => tried >= mostTried || events >= MOST_EVENTS || isStopped();
  const seen = new Map<string, boolean>();
  const failsOnce: Fails = (candidate) => {
    const key = JSON.stringify(candidate);
    const known = seen.get(key);
    if (known !== undefined) return known;
    tried++;
    const failing = failure.isOfAtOnce(candidate);
    events += failure.events;
    seen.set(key, failing);
    return failing;
  };
  let best = schedule;
  for (let next: Schedule | null = schedule; next !== null && !isOver(); ) {
    const from: Schedule = next;
    const isFailing = await inMacrotask(() => failsOnce(from));
    const small = isFailing ? await reduceInSlices(from, failsOnce, isOver) : from;
    if (!(await failure.isOf(small))) break;
    best = small;
    if (isOver()) break;
    next = await failingStepOf(small, failure, isStopped);
    if (next === null && !isStopped()) return { schedule: best, tried, minimal: true };
  }
  return { schedule: best, tried, minimal: false };
}

/** CPU time of a slice. */
const SLICE_MS = 2_000;

/**
 * Reduces a schedule in slices, between which the process hears signals.
 *
 * @param isOver - Whether the smallest so far has to do.
 */
async function reduceInSlices(from: Schedule, fails: Fails, isOver: () => boolean): Promise<Schedule> {
  const steps = reduction(from);
  let smallest = from;
  let step = steps.next();
  const slice = (): void => {
    const endMs = natives.cpuMs() + SLICE_MS;
    while (step.done !== true && !isOver() && natives.cpuMs() < endMs) {
      const isFailing = fails(step.value);
      if (isFailing) smallest = step.value;
      step = steps.next(isFailing);
    }
  };
  while (step.done !== true && !isOver()) await inMacrotask(slice);
  return smallest;
}

async function failingStepOf(
  schedule: Schedule,
  failure: Failure,
  isStopped: () => boolean = () => false,
): Promise<Schedule | null> {
  for (const step of oneStepsOf(schedule)) {
    if (isStopped()) break;
    if (await failure.isOf(step)) return step;
  }
  return null;
}

/** Whether every schedule that is one piece or one figure smaller does not fail in that way. */
export async function isMinimalForLibrary(
  subject: LockFactory,
  schedule: Schedule,
  kind: ViolationKind,
  options: LibraryRunOptions = {},
): Promise<boolean> {
  const failure = new Failure(subject, kind, schedule, options);
  // The first that is looked at says whether calls may overlap.
  await failure.isOf(schedule);
  return (await failingStepOf(schedule, failure)) === null;
}

/** A schedule of more pieces than this has not been made small. */
const MOST_PIECES = 60;

/** Leaves out each piece by itself and says what happens; nothing of a schedule that has not been made small. */
export async function explainForLibrary(
  subject: LockFactory,
  schedule: Schedule,
  kind: ViolationKind,
  options: LibraryRunOptions = {},
): Promise<Explained[]> {
  const failure = new Failure(subject, kind, schedule, options);
  const pieces = piecesOf(schedule);
  if (pieces.length > MOST_PIECES) return [];
  await failure.isOf(schedule);
  const explained: Explained[] = [];
  for (const piece of pieces) {
    explained.push({ kind: piece.kind, piece: piece.name, without: await failure.explain(piece.without()) });
  }
  return explained;
}

/** A run of libraries in the form in which reports take a judgement. */
export function judgementOf(schedule: Schedule, { run, violations }: LibraryRun): Judgement {
  const of = (kind: Violation['kind']): 'violated' | 'safe' =>
    violations.some((it) => it.kind === kind) ? 'violated' : 'safe';
  return {
    run,
    violations,
    outages: [],
    verdicts: { belief: of('belief'), state: of('state'), effect: of('effect'), liveness: of('liveness') },
    verdict: violations.length > 0 ? 'violated' : 'safe',
    assumptionsBroken: assumptions(schedule, policyOf(schedule.policy)),
  };
}
