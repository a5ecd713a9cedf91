import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Violation } from '../properties/index.js';
import { propertyLabel, recordingOf } from '../report/index.js';
import type { Schedule } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { RandomStreams, type TraceEvent } from '../sim/index.js';
import { printable, printableLines } from '../text/printable.js';
import { askedOne, counterexample } from './counterexample.js';
import { DebugLog } from './debug-log.js';
import { type ClientFailure, formatClientFailure, parseClientSchedule, replayOf } from './failure-file.js';
import type { Limit } from './judges/failure.js';
import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from './lock-factory.js';
import type { MakeLock } from './lock-under-test.js';
import { notesOn } from './notes.js';
import { checkOptions, DEFAULT_KINDS, type ExpectSafeOptions, untestable } from './options.js';
import { writePassPage } from './pass-page.js';
import { Probe } from './probe.js';
import { libraryPage, record } from './recording.js';
import { type LibraryRun, replayLibraries } from './run.js';
import { watchdog } from './runtime/watchdog.js';
import { casesOf } from './search/cases.js';
import { kindOf, VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';
import { claimsIn, drawLibraryRun } from './search/search.js';
import { shrinkForLibrary } from './search/shrink-libraries.js';

const LONGEST_PROBLEM = 400;

/** Thrown by {@link expectSafe} for a client that is not safe. The message is the counterexample. */
export class UnsafeLockError extends Error {
  override readonly name: string = 'UnsafeLockError';
  readonly kind: ViolationKind;
  /** The shrunk schedule. */
  readonly schedule: Schedule;
  readonly violation: Violation;

  constructor(message: string, kind: ViolationKind, schedule: Schedule, violation: Violation) {
    super(printableLines(message));
    this.kind = kind;
    this.schedule = schedule;
    this.violation = violation;
  }
}

/** Thrown by {@link expectSafe} for a client whose two runs of one schedule differ. */
export class NondeterministicClientError extends Error {
  override readonly name: string = 'NondeterministicClientError';

  constructor(message: string) {
    super(printableLines(message));
  }
}

/** Result of a passed test. */
export interface SafeResult {
  /** Number of cases: 1 for a replay. */
  readonly runs: number;
  /** Number of locks that were acquired in them. */
  readonly claims: number;
  /** Number of cases by fault class; `asked` for the faults that the options name. */
  readonly classes: Readonly<Record<string, number>>;
  /**
   * Requested kinds that could not occur: `effect` without pauses or wall-clock steps, `continuity` if no lock was extended,
   * `signal` if no routine got one, `belief` with one client.
   */
  readonly untested: readonly ViolationKind[];
  /** Observations that are not failures, one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Tests a lock client in the simulator. It generates cases, and throws for the first one in which two clients hold the lock at
 * once, or the client fails in another way. The message is a shrunk counterexample. Each case runs twice; if the two runs differ,
 * the client is reported as not deterministic. A hundred cases take some seconds, often more than the default time-out of a test:
 * set a time-out, and pass the test's signal. Calls in one process run one after the other.
 *
 * @param make - Makes the client of one process from connections to the nodes, with the interface of ioredis. It is called once
 * per simulated process. It must return a {@link LockUnderTest}.
 * @returns How much was tried.
 * @throws UnsafeLockError, NondeterministicClientError, UnsupportedClient if the client cannot be simulated, InputError for a
 * wrong option, or the reason of the signal.
 * @example
 * ```ts
 * test('never two holders', { timeout: 60_000 }, () =>
 *   expectSafe(({ nodes }) => new MyLock(nodes)));
 * ```
 */
export async function expectSafe(make: MakeLock, options: ExpectSafeOptions = {}): Promise<SafeResult> {
  if (typeof make !== 'function')
    throw new InputError('expectSafe: its first argument has to be a function that makes the client');
  checkOptions(options);
  return searched(make, options, unsafe);
}

/** Makes what is thrown of the first failure. */
type Tells = (it: Case, run: LibraryRun, first: Violation, options: ExpectSafeOptions) => Promise<Error>;

/** Searches of one process share its clocks and what it makes of rejections: they come one after the other. */
let last: Promise<unknown> = Promise.resolve();

/** Searches when those before are over. */
export function searched(make: MakeLock, options: ExpectSafeOptions, tells: Tells): Promise<SafeResult> {
  const result = last.then(() => search(make, options, tells));
  last = result.catch(() => {});
  return result;
}

async function search(make: MakeLock, options: ExpectSafeOptions, tells: Tells): Promise<SafeResult> {
  const { commandTimeoutMs = COMMAND_TIMEOUT_MS, signal } = options;
  signal?.throwIfAborted();
  const probe = new Probe();
  watchdog.start('the client');
  try {
    const made = await lockFactoryOf('the client', make, commandTimeoutMs ?? undefined);
    const isSimple = options.nodes === 1 && options.kinds === undefined;
    const subject = isSimple ? { ...made, limits: new Set<Limit>() } : made;
    const result = await new Search(subject, { probe, tells }, options).run();
    const safe = { ...result, untested: untestedOf(subject, options), notes: await notesOn(subject, options) };
    if (options.passTo !== undefined) writePassPage(options.passTo, safe, options);
    return safe;
  } finally {
    watchdog.stop();
    probe.stop();
  }
}

/** A case, and its outcome. */
interface Case {
  readonly subject: LockFactory;
  readonly schedule: Schedule;
  readonly extending: boolean;
  /** Which of the cases that were drawn; `null` for one that somebody gave. */
  readonly number: number | null;
}

/** One call of {@link expectSafe}. */
class Search {
  private readonly subject: LockFactory;
  private readonly by: { readonly probe: Probe; readonly tells: Tells };
  private readonly options: ExpectSafeOptions;
  private claims = 0;

  constructor(subject: LockFactory, by: Search['by'], options: ExpectSafeOptions) {
    this.subject = subject;
    this.by = by;
    this.options = options;
  }

  async run(): Promise<Omit<SafeResult, 'untested' | 'notes'>> {
    const { runs = 100, seed = 'lockstep', replay, signal } = this.options;
    if (replay !== undefined) {
      await this.replay(replay);
      return { runs: 1, claims: this.claims, classes: {} };
    }
    const streams = new RandomStreams(seed);
    const { besides, seen } = this.subject;
    const caseOf = casesOf(this.options, seen.sockets, this.options.tasks === 1 ? [] : besides);
    const classes: Record<string, number> = {};
    for (let number = 0; number < runs; number++) {
      signal?.throwIfAborted();
      const { faults, commandTimeoutMs } = caseOf(number);
      const subject = { ...this.subject, commandTimeoutMs };
      const run = await drawLibraryRun(subject, faults, streams, number);
      classes[faults.id] = (classes[faults.id] ?? 0) + 1;
      await this.judge(run, { subject, schedule: run.schedule, extending: faults.extendsItself ?? false, number });
    }
    if (this.claims === 0) throw this.nothingTested(`${runs} cases`);
    return { runs, claims: this.claims, classes };
  }

  private async replay(path: string): Promise<void> {
    const { schedule, failure } = parseClientSchedule(textOf(path), path);
    const extending = failure?.extending ?? false;
    const timeout = failure?.commandTimeoutMs;
    const isAsked = this.options.commandTimeoutMs !== undefined;
    const subject =
      isAsked || timeout === undefined ? this.subject : { ...this.subject, commandTimeoutMs: timeout ?? undefined };
    if (this.options.debug === true) return this.debug(subject, schedule, extending);
    const run = await replayLibraries(subject, schedule, { extendsItself: extending });
    await this.judge(run, { subject, schedule, extending, number: null });
    if (this.claims === 0) throw this.nothingTested('this schedule');
  }

  private async debug(subject: LockFactory, schedule: Schedule, extendsItself: boolean): Promise<void> {
    // What waits for a debugger is something real.
    this.by.probe.stop();
    const log = new DebugLog();
    const end = log.start();
    try {
      const run = await replayLibraries(subject, schedule, { extendsItself, trace: true, watch: (it) => log.show(it) });
      log.show({ nowUs: run.world.now, trace: run.run.trace, violations: run.violations });
      throwUncaught(run);
      this.claims += claimsIn(run);
      const violation = worstOf(run.violations, this.options.kinds ?? DEFAULT_KINDS);
      if (violation === undefined) return;
      const kind = kindOf(violation);
      throw new UnsafeLockError(`${titleOf(kind, violation)}\n  ${violation.detail}`, kind, schedule, violation);
    } finally {
      end();
    }
  }

  private nothingTested(where: string): Error {
    const { seen } = this.subject;
    const { rejection, unsupported, nodesAsked, nodesGiven } = seen;
    const why = rejection === undefined ? '' : `; its acquire was last rejected with ${describe(rejection)}`;
    const asked = nodesAsked === 1 && nodesGiven > 1 ? `; ${askedOne(seen)}` : '';
    const needs = unsupported === null ? '' : `; ${unsupported.message}`;
    return new Error(
      printableLines(`no client has ever acquired the lock in ${where}, so nothing was tested${asked}${why}${needs}`),
      {
        cause: rejection,
      },
    );
  }

  private async judge(run: LibraryRun, it: Case): Promise<void> {
    const { by, options } = this;
    const { probe } = by;
    const { subject } = it;
    probe.check();
    const again = await replayLibraries(subject, it.schedule, { extendsItself: it.extending });
    if (again.run.hash !== run.run.hash) throw await nondeterministic(it);
    probe.stop();
    throwUncaught(run);
    this.claims += claimsIn(run);
    const violation = worstOf(run.violations, options.kinds ?? DEFAULT_KINDS);
    // Of a client that never acquires anything, more is told at the end.
    if (violation !== undefined && (this.claims > 0 || kindOf(violation) !== 'unavailable'))
      throw await this.by.tells(it, run, violation, options);
  }
}

function throwUncaught({ uncaught }: LibraryRun): void {
  for (const { client, error } of uncaught)
    throw new Error(`${client} threw where nobody caught it: what is not handled, a rejection too, ends a process`, {
      cause: error,
    });
}

function titleOf(kind: ViolationKind, { property }: Violation): string {
  return `the lock is not safe (kind ${kind}, property ${propertyLabel(property)})`;
}

function describe(error: unknown): string {
  return printable(error instanceof Error ? `${error.name}: ${error.message}` : String(error), LONGEST_PROBLEM);
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new InputError(`expectSafe: replay: ${path} cannot be read; it must be the file of a failure`);
  }
}

/** What could not fail of what was asked for. @throws if that is all of it, as a test that could not fail. */
function untestedOf({ seen }: LockFactory, options: ExpectSafeOptions): ViolationKind[] {
  const { kinds = DEFAULT_KINDS } = options;
  const never = untestable(kinds, options);
  const untested = kinds.filter(
    (kind) => never.includes(kind) || (kind === 'continuity' && !seen.extension) || (kind === 'signal' && !seen.signal),
  );
  if (options.replay === undefined && untested.length === kinds.length)
    throw new Error(`nothing in these options can bring about ${untested.join(' or ')}, so nothing was tested`);
  return untested;
}

/** The first of the worst kind, as {@link VIOLATION_KINDS} has them. */
function worstOf(violations: readonly Violation[], kinds: readonly ViolationKind[]): Violation | undefined {
  const worst = VIOLATION_KINDS.find((kind) => kinds.includes(kind) && violations.some((it) => kindOf(it) === kind));
  return violations.find((it) => kindOf(it) === worst);
}

/** Runs a schedule until two runs of it differ, and says where. */
async function nondeterministic({ subject, schedule, extending, number }: Case): Promise<Error> {
  const traceOf = async (): Promise<readonly TraceEvent[]> =>
    (await replayLibraries(subject, schedule, { trace: true, extendsItself: extending })).run.trace;
  const first = await traceOf();
  const traces: (readonly TraceEvent[])[] = [];
  for (let i = 0; i < 5; i++) traces.push(await traceOf());
  const which = number === null ? 'this schedule' : `case ${number}`;
  for (const other of traces) {
    const at = first.findIndex((event, i) => wordsOf(event) !== wordsOf(other[i]));
    if (at < 0) continue;
    return new NondeterministicClientError(
      `your client is not deterministic at event ${at} of ${which}: ${wordsOf(first[at])} in one run, and ` +
        `${wordsOf(other[at])} in the next. Does it keep something between runs, or wait for something real?`,
    );
  }
  return new NondeterministicClientError(
    `your client is not deterministic: two runs of ${which} had different traces, though the next ones did not. ` +
      'Does it keep something between runs, like a cache at the top of a module?',
  );
}

function wordsOf(event: TraceEvent | undefined): string {
  if (event === undefined) return 'nothing more happens';
  const { operation = '', node = '' } = event.detail;
  return `${[event.kind, operation, node].filter((it) => it !== '').join(' ')} of ${event.process} at ${event.atUs / 1000} ms`;
}

async function unsafe(
  { subject, schedule: found, extending, number }: Case,
  run: LibraryRun,
  first: Violation,
  options: ExpectSafeOptions,
): Promise<UnsafeLockError> {
  const kind = kindOf(first);
  const how = { extendsItself: extending };
  const isGiven = number === null;
  const shrunk = isGiven ? null : await shrinkForLibrary(subject, found, kind, how);
  const schedule = shrunk?.schedule ?? found;
  const commandTimeoutMs = subject.commandTimeoutMs ?? null;
  const failure = {
    client: { from: 'test', name: subject.name },
    kind,
    extending,
    commandTimeoutMs,
    schedule,
  } as const;
  const { path, report, problem } = await written(subject, failure, options);
  const shownBy = options.replay ?? path;
  const message = await counterexample(
    subject,
    schedule,
    kind,
    {
      run: number ?? 0,
      runs: options.runs ?? 100,
      seed: isGiven ? null : (options.seed ?? 'lockstep'),
      foundEvents: run.run.events,
      replay: shownBy === null ? null : replayOf(failure, shownBy, ''),
      ...(report === null ? {} : { report }),
      showsAll: 'the report',
      ...(shrunk === null || shrunk.minimal ? {} : { shrinkingEndedAfter: shrunk.tried }),
      onOneNode: 'nodes: 1',
    },
    how,
  );
  const shown = await replayLibraries(subject, schedule, how);
  const violation = shown.violations.find((it) => kindOf(it) === kind) ?? first;
  const note = problem === null ? '' : `  ${problem}\n`;
  return new UnsafeLockError(`${titleOf(kind, violation)}\n${message}${note}`, kind, schedule, violation);
}

/** Where a failure and its page are; `null` where they could not be written, and why. */
interface WrittenFailure {
  readonly path: string | null;
  readonly report: string | null;
  readonly problem: string | null;
}

/** A disk that is full or read-only must not hide a finding. */
async function written(...given: Parameters<typeof write>): Promise<WrittenFailure> {
  try {
    return { ...(await write(...given)), problem: null };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return {
      path: null,
      report: null,
      problem: printable(`its file could not be written: ${reason}`, LONGEST_PROBLEM),
    };
  }
}

/** Writes a failure and its page under a name that no other failure has. */
async function write(
  subject: LockFactory,
  failure: Omit<ClientFailure, 'schema'>,
  { reportTo = '.lockstep/libraries' }: ExpectSafeOptions,
): Promise<{ readonly path: string; readonly report: string }> {
  const { schedule, kind, extending } = failure;
  const recorded = await record(subject, schedule, { extendsItself: extending });
  const text = formatClientFailure(failure);
  const hash = createHash('sha256').update(text).update(recorded.hash).digest('hex').slice(0, 8);
  const name = `test-${kind}-${hash}`;
  const [path, report] = [join(reportTo, `${name}.json`), join(reportTo, `${name}.html`)];
  mkdirSync(reportTo, { recursive: true });
  writeFileSync(path, text);
  // Loaded here, so that a test that passes does not wait for it.
  const { htmlReport } = await import('../report/html.js');
  const page = libraryPage(subject.name, name, recorded, replayOf(failure, path, ''));
  writeFileSync(report, htmlReport(recordingOf(page)));
  return { path, report };
}
