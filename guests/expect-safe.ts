import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Violation } from '../properties/index.js';
import { formatCounterexample, recordingOf } from '../report/index.js';
import { formatSchedule, type Schedule } from '../scenarios/index.js';
import { Streams, type TraceEvent } from '../sim/index.js';
import type { MakeLock } from './lock-under-test.js';
import { Probe } from './probe.js';
import { guestPage, record } from './recording.js';
import { type GuestRunOptions, replayGuests } from './run.js';
import type { FaultClass } from './search/fault-classes.js';
import {
  claimsIn,
  type DrawnGuestRun,
  drawGuestRun,
  kindOf,
  VIOLATION_KINDS,
  type ViolationKind,
} from './search/search.js';
import { explainForGuest, judgementOf, shrinkForGuest } from './search/shrink-guests.js';
import { type Subject, subjectOf } from './subject.js';

/** What may go wrong; all of it is optional, and what is left out does not happen. */
export interface TestFaults {
  /** Nodes that lose all they have and are back after `restartDelayMs`: at most so many a run. */
  readonly crash?: number;
  /** Pauses of clients and nodes of up to two TTLs: at most so many a run. */
  readonly pause?: number;
  /** Clients cut off from some nodes for a while: at most so many a run. */
  readonly partition?: number;
  /** Wall clocks of clients that somebody sets, by up to two TTLs: at most so many a run. */
  readonly wallStep?: number;
  /** Node clocks that jump ahead, in all by this, ms. Default 0. */
  readonly skewMs?: number;
  /** Node clocks that are fast, and client clocks that are slow, by this, parts per million. Default 0. */
  readonly driftPpm?: number;
  /** Share of messages lost, 0 to 1. Default 0. */
  readonly loss?: number;
  /** Share of messages that are late, by up to 1.5 TTL, 0 to 1. Default 0. */
  readonly delay?: number;
}

/** Options of {@link expectSafe}. */
export interface ExpectSafeOptions {
  readonly faults?: TestFaults;
  /** Cases to draw. Default 100. */
  readonly runs?: number;
  /** Any string; another one draws other cases. Default `lockstep`. */
  readonly seed?: string;
  /** Default 5. */
  readonly nodes?: number;
  /** Clients that want the same lock. Default 3. */
  readonly clients?: number;
  /** TTL that locks are asked for, ms. Default 10000. */
  readonly ttlMs?: number;
  /** After a crash a node is back when this has passed, ms; default a TTL, which is safe. 0 is at once. */
  readonly restartDelayMs?: number;
  /** Commands of `nodes` reject after this, ms; `null` for never, as in ioredis. Default 500. */
  readonly commandTimeoutMs?: number | null;
  /** What counts as a failure. Default all of {@link ViolationKind}. */
  readonly kinds?: readonly ViolationKind[];
  /** Connections may deliver later commands first, as reconnects and pools do. Default: in half of the cases. */
  readonly reordering?: boolean;
  /**
   * Where the schedule of a failure is written, and a page that shows its run, below the working directory. Default
   * `.lockstep/guests`.
   */
  readonly reportTo?: string;
}

/** What {@link expectSafe} throws for a client that is not safe; its message is the counterexample. */
export class UnsafeLockError extends Error {
  override readonly name: string = 'UnsafeLockError';
  readonly kind: ViolationKind;
  /** The schedule, made small. */
  readonly schedule: Schedule;
  readonly violation: Violation;

  constructor(message: string, kind: ViolationKind, schedule: Schedule, violation: Violation) {
    super(message);
    this.kind = kind;
    this.schedule = schedule;
    this.violation = violation;
  }
}

/** What {@link expectSafe} throws for a client of which two runs of one schedule differ. */
export class NondeterministicClientError extends Error {
  override readonly name: string = 'NondeterministicClientError';
}

/** What came of a test that passed. */
export interface SafeResult {
  readonly runs: number;
  readonly claims: number;
}

function faultsOf(options: ExpectSafeOptions): FaultClass {
  const { faults = {}, ttlMs = 10_000, restartDelayMs = ttlMs, reordering } = options;
  const { crash = 0, pause = 0, partition = 0, wallStep = 0, skewMs = 0, driftPpm = 0, loss = 0, delay = 0 } = faults;
  const strain = { rate: driftPpm > 0, step: skewMs > 0, restart: crash > 0 };
  const stretch = {
    rate: strain.rate ? 1 : 0,
    step: strain.step ? 1 : 0,
    restart: strain.restart ? 1 : 0,
    forget: 0,
    late: 0,
  };
  return {
    id: 'test',
    title: 'test',
    story: '',
    ...(reordering === undefined ? {} : { link: reordering ? 'reordering' : 'fifo' }),
    weather: {
      nodes: options.nodes ?? 5,
      clients: options.clients ?? 3,
      ttlsMs: [ttlMs],
      stretch,
      crashes: crash,
      pauses: pause,
      partitions: partition,
      wallSteps: wallStep,
      lossPpm: Math.round(loss * 1_000_000),
      spikePpm: Math.round(delay * 1_000_000),
      restartDelayUs: restartDelayMs * 1000,
      stepUs: skewMs * 1000,
      ratePpm: driftPpm,
    },
  };
}

/**
 * Tortures a lock client inside the simulator: draws cases of what may go wrong, and throws for the first in which two
 * clients hold the lock at once, or the client fails in another way, with a counterexample as short as it can be made.
 * Each case runs twice; a client of which the two differ is named as not deterministic, and never passes.
 *
 * @param make - Makes the client of one process from connections to the nodes, with the face of ioredis. It is called once
 * for each simulated process. See {@link LockUnderTest} for what it has to give.
 * @returns How much was tried.
 * @throws UnsafeLockError, NondeterministicClientError, or UnsupportedClient for one that cannot be simulated.
 * @example
 * ```ts
 * test('never two holders', () =>
 *   expectSafe(({ nodes }) => new MyLock(nodes), { faults: { crash: 1, skewMs: 50 } }));
 * ```
 */
export async function expectSafe(make: MakeLock, options: ExpectSafeOptions = {}): Promise<SafeResult> {
  const { runs = 100, seed = 'lockstep', kinds = VIOLATION_KINDS, commandTimeoutMs = 500 } = options;
  const faults = faultsOf(options);
  const probe = new Probe();
  try {
    const subject = await subjectOf('the client', make, commandTimeoutMs ?? undefined);
    const streams = new Streams(seed);
    let claims = 0;
    for (let number = 0; number < runs; number++) {
      const run = await drawGuestRun(subject, faults, streams, number);
      probe.check();
      const again = await replayGuests(subject, run.schedule);
      if (again.run.hash !== run.run.hash) throw await nondeterministic(subject, run);
      probe.stop();
      for (const { client, error } of run.uncaught)
        throw new Error(`${client} threw where nobody caught it`, { cause: error });
      claims += claimsIn(run);
      const violation = worstOf(run.violations, kinds);
      if (violation !== undefined) throw await unsafe(subject, run, violation, options);
    }
    if (claims === 0) throw new Error(`no client has ever acquired the lock in ${runs} cases, so nothing was tested`);
    return { runs, claims };
  } finally {
    probe.stop();
  }
}

/** The first of the worst kind, as {@link VIOLATION_KINDS} has them. */
function worstOf(violations: readonly Violation[], kinds: readonly ViolationKind[]): Violation | undefined {
  const worst = VIOLATION_KINDS.find((kind) => kinds.includes(kind) && violations.some((it) => kindOf(it) === kind));
  return violations.find((it) => kindOf(it) === worst);
}

/** Runs a schedule until two runs of it differ, and says where. */
async function nondeterministic(subject: Subject, { schedule, number }: DrawnGuestRun): Promise<Error> {
  const first = (await replayGuests(subject, schedule, { trace: true })).run.trace;
  const traces: (readonly TraceEvent[])[] = [];
  for (let i = 0; i < 5; i++) traces.push((await replayGuests(subject, schedule, { trace: true })).run.trace);
  for (const other of traces) {
    const at = first.findIndex((event, i) => wordsOf(event) !== wordsOf(other[i]));
    if (at < 0) continue;
    return new NondeterministicClientError(
      `your client is not deterministic at event ${at} of case ${number}: ${wordsOf(first[at])} in one run, and ` +
        `${wordsOf(other[at])} in the next. Does it keep something between runs, or wait for something real?`,
    );
  }
  return new NondeterministicClientError(
    `your client is not deterministic: two runs of case ${number} had different traces, though the next ones did not. ` +
      'Does it keep something between runs, like a cache at the top of a module?',
  );
}

function wordsOf(event: TraceEvent | undefined): string {
  if (event === undefined) return 'nothing more happens';
  const { operation = '', node = '' } = event.detail;
  return `${[event.kind, operation, node].filter((it) => it !== '').join(' ')} of ${event.process} at ${event.atUs / 1000} ms`;
}

async function unsafe(
  subject: Subject,
  run: DrawnGuestRun,
  found: Violation,
  options: ExpectSafeOptions,
): Promise<UnsafeLockError> {
  const kind = kindOf(found);
  const { schedule, minimal, tried } = await shrinkForGuest(subject, run.schedule, kind);
  const { path, report } = await write(subject, schedule, kind, run.number, options);
  const message = await counterexample(subject, schedule, kind, {
    run: run.number,
    runs: options.runs ?? 100,
    seed: options.seed ?? 'lockstep',
    foundEvents: run.run.events,
    replay: path,
    report,
    showsAll: 'the report',
    ...(minimal ? {} : { shrinkingEndedAfter: tried }),
  });
  const shown = await replayGuests(subject, schedule);
  const violation = shown.violations.find((it) => kindOf(it) === kind) ?? found;
  return new UnsafeLockError(`the lock is not safe (${kind})\n${message}`, kind, schedule, violation);
}

/** Where a failure was found, and how to see it again. */
export interface FoundWhere {
  readonly run: number;
  readonly runs: number;
  /** `null` for a schedule that somebody gave. */
  readonly seed: string | null;
  readonly foundEvents: number;
  readonly replay: string;
  /** The path of its page, if there is one. */
  readonly report?: string;
  /** What shows the lines that there is no room for. Default `replay`. */
  readonly showsAll?: string;
  /** Tries after which shrinking gave up, if it did. */
  readonly shrinkingEndedAfter?: number;
}

/**
 * A failure of a guest in at most twenty lines, and one more where it may not be minimal. What it needs is said of the
 * pieces that were left out one by one.
 */
export async function counterexample(
  subject: Subject,
  schedule: Schedule,
  kind: ViolationKind,
  where: FoundWhere,
  options: GuestRunOptions = {},
): Promise<string> {
  const run = await replayGuests(subject, schedule, { ...options, trace: true });
  const violation = run.violations.find((it) => kindOf(it) === kind);
  if (violation === undefined) return 'the schedule no longer fails\n';
  const judgement = judgementOf(schedule, run);
  const explained = await explainForGuest(subject, schedule, kind, options);
  const { events } = run.run;
  const text = formatCounterexample({
    schedule,
    judgement,
    violation,
    preventions: null,
    explained,
    events,
    ...where,
  });
  const { shrinkingEndedAfter: tried } = where;
  return tried === undefined
    ? text
    : `${text}  shrinking ended after ${tried} tries: something may still be left out\n`;
}

async function write(
  subject: Subject,
  schedule: Schedule,
  kind: ViolationKind,
  number: number,
  options: ExpectSafeOptions,
): Promise<{ readonly path: string; readonly report: string }> {
  const { seed = 'lockstep', reportTo = '.lockstep/guests' } = options;
  const name = `test-${seed.replace(/[^\w.-]+/g, '-')}-${number + 1}-${kind}`;
  const [path, report] = [join(reportTo, `${name}.json`), join(reportTo, `${name}.html`)];
  mkdirSync(reportTo, { recursive: true });
  writeFileSync(path, formatSchedule(schedule));
  // Loaded here, so that a test that passes does not wait for it.
  const { htmlReport } = await import('../report/html.js');
  const page = guestPage(subject.name, name, await record(subject, schedule), path);
  writeFileSync(report, htmlReport(recordingOf(page)));
  return { path, report };
}
