import { type LockFactory, lockFactoryOf } from '../libraries/lock-factory.js';
import { type LibraryRun, replayLibraries } from '../libraries/run.js';
import { natives } from '../libraries/runtime/natives.js';
import { kindOf, type ViolationKind } from '../libraries/search/kinds.js';
import { claimsIn, type DrawnLibraryRun, drawLibraryRun } from '../libraries/search/search.js';
import type { Violation } from '../properties/index.js';
import type { Schedule } from '../scenarios/index.js';
import { RandomStreams } from '../sim/index.js';
import { kindsFor, promiseOf, type Trouble, troublesFor } from './cases.js';
import { redlockIn } from './clients.js';
import { lockMaker } from './drive.js';
import { ProcessExit } from './evaluation.js';
import { isKeptAlone } from './kept-alone.js';
import type { Bench } from './load.js';
import { isOfWork } from './own-error.js';
import { plansFor, type Understood } from './plan.js';
import { firstLineOf } from './program.js';
import { surroundingsIn } from './rehearsal.js';
import type { FoundBefore } from './result.js';
import { returnsLater } from './returns-later.js';
import { holdsMessages } from './stored.js';
import type { FoundLock } from './understand.js';

/** A schedule on which a lock fails, the first of its kind. */
export interface Failing {
  readonly kind: ViolationKind;
  readonly run: number;
  readonly violation: Violation;
  readonly schedule: Schedule;
  readonly extending: boolean;
  readonly events: number;
  /** The lock, as it was run. */
  readonly subject: LockFactory;
}

/** What came of a search. */
export interface Searched {
  readonly runs: number;
  /** Locks that were acquired in them. */
  readonly acquired: number;
  readonly classes: Readonly<Record<string, number>>;
  readonly failing: readonly Failing[];
  /** What library code threw where nobody caught it, in a line. */
  readonly uncaught: string | null;
  /** Two runs of one schedule differed. */
  readonly differs: boolean;
  readonly isInterrupted: boolean;
  readonly rejection: unknown;
}

/** How long is searched. */
export interface SearchLimits {
  readonly runs: number;
  readonly seed: string;
  /** Time of the processor, ms: no further run begins after that. */
  readonly budgetMs: number;
  readonly onRun: (done: number) => void;
  readonly isStopped: () => boolean;
  readonly replay?: FoundBefore | undefined;
}

/** What harms nobody where it is rare: what waits for a TTL then, or is asked for again. Counts where this share of runs has it. */
const RARE: readonly ViolationKind[] = ['leak', 'hang', 'rejection', 'unavailable', 'token'];
const OFTEN = 0.04;

/** Every so many runs, one is made a second time. */
const TWICE_EVERY = 8;

/** The one process that reads, where there is a lock for readers: two of them may have it at once. */
const READER = 'c2';

/** A value that all processes share hides whose key it is that has been there for long; that it has no end is certain. */
function isCertain(violation: Violation): boolean {
  return kindOf(violation) !== 'lifetime' || violation.detail.includes('for ever');
}

/** What the keys of readers mean is not known: of them counts what they do beside a writer. */
function isOfReader(violation: Violation): boolean {
  return kindOf(violation) !== 'belief' && violation.clients.includes(READER);
}

/** The kinds of failure that count against a lock, as it was seen in plain use. */
function countedKinds(
  { program }: Bench,
  how: FoundLock['how'],
  { alone, capacity }: FoundLock['seen'],
): readonly ViolationKind[] {
  // A key that ends by its value may stay there for ever.
  const endsByValue = alone.trial?.endsByValue || capacity.endsByScore;
  // What plain use rejects wants something else than it is handed.
  const rejects = nameOf(alone.releaseError) === 'TypeError' || isOfWork(program, alone.releaseError);
  return kindsFor(how).filter((kind) => !(endsByValue && kind === 'lifetime') && !(rejects && kind === 'rejection'));
}

function nameOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? Reflect.get(error, 'name') : null;
}

/** Whether a process that it is about had ended by then: Node ends one that leaves an error uncaught. */
function isOfEnded({ clients, atUs }: Violation, { uncaught }: LibraryRun): boolean {
  return uncaught.some((it) => it.atUs <= atUs && clients.includes(it.client));
}

/** Whether a process was paused while it acquired what was over when it was given. */
function isAfterPause({ clients, atUs }: Violation, schedule: Schedule): boolean {
  const longest = Math.max(...schedule.clients.flatMap(({ locks }) => locks.map(({ ttlMs }) => ttlMs * 1000)));
  return schedule.faults.some(
    (it) =>
      it.kind === 'pause' && clients.includes(it.process) && it.atUs <= atUs && it.atUs + it.forUs >= atUs - longest,
  );
}

/** Work that looks whether it was told that its lock is over, before it goes on. */
const LOOKS_AT_SIGNAL = /\bsignal\.(?:aborted|throwIfAborted)\b/i;

/** What is not held against a lock. */
function excuseFor(
  { program, stored }: Bench,
  { plan }: Understood,
): (violation: Violation, run: DrawnLibraryRun) => boolean {
  const reads = plan.shared !== undefined;
  // `using` of redlock hands its work a signal, and the first extension aborts that: after a pause before the work as after one in it.
  const usesUsing = redlockIn(program.texts) !== undefined && program.texts.some((it) => /\.using\(/.test(it));
  const isTold = plan.use === 'handler' && usesUsing;
  const looks = program.texts.some((it) => LOOKS_AT_SIGNAL.test(it));
  return (it, run) =>
    isOfEnded(it, run) ||
    // Who waits for a message that another process has taken does not ask for the lock.
    (kindOf(it) === 'unavailable' && holdsMessages(stored)) ||
    (reads && isOfReader(it)) ||
    // When a script ends is not known: it may still be waiting for a node.
    (plan.use === 'script' && kindOf(it) === 'leak') ||
    (isTold && kindOf(it) === 'acquisition' && (looks || isAfterPause(it, run.schedule)));
}

/** One run, of a schedule that failed before. */
async function playedAgain(
  made: LockFactory,
  { kind, extending, commandTimeoutMs, schedule }: FoundBefore,
): Promise<Searched> {
  const subject = { ...made, commandTimeoutMs: commandTimeoutMs ?? undefined };
  const run = await replayLibraries(subject, schedule, { extendsItself: extending });
  const violation = run.violations.find((it) => kindOf(it) === kind);
  const { events } = run.run;
  const found = violation && { kind, run: 0, violation, schedule, extending, events, subject };
  const failing = found === undefined || (await returnsLater(found)) ? [] : [found];
  return {
    runs: 1,
    acquired: claimsIn(run),
    classes: {},
    failing,
    uncaught: null,
    differs: false,
    isInterrupted: false,
    rejection: made.seen.rejection,
  };
}

/**
 * A run of a lock on one node, with clocks of one rate where it does not keep others out: no allowance for drift is asked of
 * such a lock, which may count on the whole of its TTL.
 */
async function withEqualRates(
  run: DrawnLibraryRun,
  subject: LockFactory,
  extendsItself: boolean,
): Promise<DrawnLibraryRun> {
  const { schedule: drawn, violations } = run;
  const clocks = drawn.cluster.clocks.map((it) => ({ ...it, ratePpm: 0 }));
  const faults = drawn.faults.filter(({ kind }) => kind !== 'clock-drift');
  const isFast = drawn.cluster.clocks.some(({ ratePpm }) => ratePpm !== 0);
  const isOfRates = (it: Violation): boolean => kindOf(it) === 'belief' || kindOf(it) === 'state';
  if (!violations.some(isOfRates) || (!isFast && faults.length === drawn.faults.length)) return run;
  const schedule = { ...drawn, cluster: { ...drawn.cluster, clocks }, faults };
  return { ...run, ...(await replayLibraries(subject, schedule, { extendsItself })), schedule };
}

/** Goes through the troubles that the lock's promise covers, or plays again what was found before. */
export async function searchAudit(
  bench: Bench,
  { how, hosts, seen }: FoundLock,
  limits: SearchLimits,
): Promise<Searched> {
  const factory = await lockFactoryOf(bench.program.name, lockMaker(bench, how, plansFor(how, [READER])), undefined, {
    ...surroundingsIn(bench, hosts),
    nodes: Math.max(3, how.nodes, hosts.met),
  });
  // What is sent for the first time within a run would make the next one another.
  const made = { ...factory, admits: how.admits, scripts: new Map([...bench.scripts, ...factory.scripts]) };
  bench.wire.knowValues();
  if (limits.replay !== undefined) return playedAgain(made, limits.replay);
  const streams = new RandomStreams(limits.seed);
  const troubleOf = troublesFor(how);
  const kinds = countedKinds(bench, how, seen);
  const isOnOne = promiseOf(how) !== 'redlock';
  const isExcused = excuseFor(bench, how);
  const failing = new Map<ViolationKind, Failing>();
  /** Of those, what failed in a run in which all errors were caught: it can be made small. */
  const caught = new Set<ViolationKind>();
  const counts = new Map<ViolationKind, number>();
  const classes: Record<string, number> = {};
  let [runs, acquired, differs, isInterrupted] = [0, 0, false, false];
  let uncaught: string | null = null;
  const endMs = natives.cpuMs() + limits.budgetMs;
  for (; runs < limits.runs && natives.cpuMs() < endMs; runs++) {
    isInterrupted = limits.isStopped();
    if (isInterrupted) break;
    const { faults, commandTimeoutMs }: Trouble = troubleOf(runs);
    const subject = { ...made, commandTimeoutMs };
    const extending = faults.extendsItself ?? false;
    const drawn = await drawLibraryRun(subject, faults, streams, runs);
    const run = isOnOne ? await withEqualRates(drawn, subject, extending) : drawn;
    classes[faults.id] = (classes[faults.id] ?? 0) + 1;
    acquired += claimsIn(run);
    const bad = run.violations.filter((it) => kinds.includes(kindOf(it)) && isCertain(it) && !isExcused(it, run));
    for (const kind of new Set(bad.map(kindOf))) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const isCaught = run.uncaught.length === 0;
    const fresh = bad.filter((it) => !failing.has(kindOf(it)) || (isCaught && !caught.has(kindOf(it))));
    if (fresh.length > 0 || runs % TWICE_EVERY === 0) {
      const again = await replayLibraries(subject, run.schedule, { extendsItself: extending });
      differs ||= again.run.hash !== run.run.hash;
    }
    const first = run.uncaught.find(({ error }) => !(error instanceof ProcessExit));
    if (first !== undefined) uncaught ??= firstLineOf(first.error);
    for (const violation of fresh) {
      const kind = kindOf(violation);
      if (failing.has(kind) && (!isCaught || caught.has(kind))) continue;
      const { schedule } = run;
      const found = { kind, run: runs, violation, schedule, extending, events: run.run.events, subject };
      if ((await isKeptAlone(how, found)) || (await returnsLater(found))) continue;
      if (isCaught) caught.add(kind);
      failing.set(kind, found);
    }
    limits.onRun(runs + 1);
  }
  const isOften = (kind: ViolationKind): boolean => !RARE.includes(kind) || (counts.get(kind) ?? 0) >= OFTEN * runs;
  return {
    runs,
    acquired,
    classes,
    failing: kinds.filter(isOften).flatMap((kind) => failing.get(kind) ?? []),
    uncaught,
    differs,
    isInterrupted,
    rejection: made.seen.rejection,
  };
}
