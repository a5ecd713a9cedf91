import { choiceOf } from '../../deviations/index.js';
import { type Assumption, assumptions } from '../../properties/index.js';
import type { Schedule } from '../../scenarios/index.js';
import { RandomStreams, RecordingAdversary, RollingHash, type StreamSource } from '../../sim/index.js';
import { type LibraryRun, runLibraries, runLibrariesAtOnce } from '../run.js';
import { inMacrotask } from '../runtime/drain.js';
import type { LockFactory } from '../session.js';
import type { FaultClass } from './fault-classes.js';
import { kindOf, type ViolationKind } from './kinds.js';
import { drawLibraryPremise, LibraryAdversary } from './library-adversary.js';

/** A drawn run, with the schedule that makes it again. */
export interface DrawnLibraryRun extends LibraryRun {
  readonly number: number;
  readonly schedule: Schedule;
}

/** How what follows from an event is run before the next one. */
type Drain = 'immediates' | 'at-once';

/** Makes run number `number` of a search. */
export async function drawLibraryRun(
  subject: LockFactory,
  faults: FaultClass,
  streams: StreamSource,
  number: number,
  drain: Drain = 'immediates',
): Promise<DrawnLibraryRun> {
  const { setup } = drawLibraryPremise(faults, streams, number);
  const drawn = new LibraryAdversary(faults, drawLibraryPremise(faults, streams, number), streams, number);
  const recording = new RecordingAdversary(drawn, setup.clients.length);
  const options = { extendsItself: faults.extendsItself ?? false };
  const run =
    drain === 'immediates'
      ? await runLibraries(subject, setup, recording, options)
      : await inMacrotask(() => runLibrariesAtOnce(subject, setup, recording, options));
  return { ...run, number, schedule: recording.schedule(setup, choiceOf(setup.policy)) };
}

/** A failing run that a search keeps: the first of its kind. */
export interface FoundByLibraries {
  readonly kind: ViolationKind;
  readonly run: number;
  readonly schedule: Schedule;
  readonly events: number;
  /** What the schedule does not keep; empty for a bug of the library. */
  readonly assumptionsBroken: readonly Assumption[];
}

/** A cell of the matrix. */
export interface Cell {
  readonly fault: string;
  readonly runs: number;
  /** Claims in all runs: without any, nothing was tried. */
  readonly claims: number;
  /** Runs with a violation; those of them that keep the assumptions of the lock. */
  readonly violations: number;
  readonly inside: number;
  /** Runs by kind of violation; a run may have several. */
  readonly kinds: Readonly<Partial<Record<ViolationKind, number>>>;
  /** Runs in which library code threw where nobody could catch it. */
  readonly uncaught: number;
  /** Of the traces of all runs. */
  readonly hash: string;
  readonly found: readonly FoundByLibraries[];
}

/** How long is searched, and from where. */
interface SearchOptions {
  readonly seed: string;
  readonly runs: number;
  readonly drain?: Drain;
  readonly signal?: AbortSignal;
  /** Called after each run. */
  readonly onRun?: (done: number) => void;
}

/** Tests a library with one class of faults. */
export async function searchLibraries(subject: LockFactory, faults: FaultClass, options: SearchOptions): Promise<Cell> {
  const streams = new RandomStreams(options.seed);
  const hash = new RollingHash();
  const kinds: Partial<Record<ViolationKind, number>> = {};
  const found: FoundByLibraries[] = [];
  let [runs, claims, violations, inside, uncaught] = [0, 0, 0, 0, 0];
  for (; runs < options.runs && !options.signal?.aborted; runs++) {
    const run = await drawLibraryRun(subject, faults, streams, runs, options.drain);
    hash.add(run.world.context.trace.value());
    claims += claimsIn(run);
    if (run.uncaught.length > 0) uncaught++;
    if (run.violations.length > 0) {
      violations++;
      const broken = assumptions(run.schedule, run.world.policy);
      if (broken.length === 0) inside++;
      for (const kind of new Set(run.violations.map(kindOf))) {
        kinds[kind] = (kinds[kind] ?? 0) + 1;
        keepFirst(found, kind, run, broken);
      }
    }
    options.onRun?.(runs + 1);
  }
  return { fault: faults.id, runs, claims, violations, inside, kinds, uncaught, hash: hash.digest(), found };
}

/** Keeps the first of each kind; one that keeps the assumptions rather than one that does not. */
function keepFirst(
  found: FoundByLibraries[],
  kind: ViolationKind,
  run: DrawnLibraryRun,
  broken: readonly Assumption[],
): void {
  const at = found.findIndex((it) => it.kind === kind);
  const worse = at >= 0 && ((found[at]?.assumptionsBroken.length ?? 0) === 0 || broken.length > 0);
  if (worse) return;
  const { number, schedule } = run;
  const it = { kind, run: number, schedule, events: run.run.events, assumptionsBroken: broken };
  if (at < 0) found.push(it);
  else found[at] = it;
}

/** How many locks of a run were ever claimed. */
export function claimsIn({ world }: LibraryRun): number {
  return world.clients.reduce((sum, { locks }) => sum + locks.filter((it) => it.state.hold.deadline > 0).length, 0);
}
