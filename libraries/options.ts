import { flag, oneOf, type Range, record, someOf, text, whole, wrong } from '../scenarios/grammar-parts.js';
import { InputError } from '../scenarios/input-error.js';
import * as z from '../scenarios/zod.js';
import { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';

/** What may go wrong; all of it is optional, and what is left out does not happen: `{}` is a calm network. */
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
  /** Node clocks that are fast, and client clocks that are slow, by this, parts per million. Default 0, at most 500000. */
  readonly driftPpm?: number;
  /** Share of messages lost, 0 to 1. Default 0. */
  readonly loss?: number;
  /** Share of messages that are late, by up to 1.5 TTL, 0 to 1. Default 0. */
  readonly delay?: number;
}

/** Options of {@link expectSafe}. One that is unknown, or has a wrong value, is refused. */
export interface ExpectSafeOptions {
  /**
   * Default: the kinds of trouble that a lock has to withstand, in turn and then all of it at once: small losses,
   * partitions, late and reordered messages, drift, restarts that are delayed, pauses, silent nodes under locks that extend
   * themselves, a dead node, four nodes, processes that die as they acquire, late extensions, all that begin in one instant, a
   * whole minority that is dead, hung, refuses, or is not heard. A dead node and such a minority stay so to the end;
   * everything else heals, and each client asks once more, alone. Not restarts that are too soon, or clocks that are set.
   */
  readonly faults?: TestFaults;
  /** Cases to draw. Default 100. */
  readonly runs?: number;
  /** Any string; another one draws other cases. Default `lockstep`. */
  readonly seed?: string;
  /** 1 to 31. Default 5. Say 1 for a lock on one node: of five, it holds no majority. */
  readonly nodes?: number;
  /** Clients that want the same lock. Default 3, at most 31. */
  readonly clients?: number;
  /**
   * Acquisitions that one process makes at once. Default 2 in one of ten cases, without `faults`, for a client that gives something
   * of its own for each. Say 1 if they are meant to be one: a lock that any task of a process may enter again.
   */
  readonly tasks?: 1 | 2;
  /** TTL that locks are asked for, ms. Default 10000; without `faults`, 10000, 2500 and 730 by chance. */
  readonly ttlMs?: number;
  /** After a crash a node is back when this has passed, ms; default a TTL, which is safe. 0 is at once. */
  readonly restartDelayMs?: number;
  /**
   * Commands of `nodes` reject after this, ms; `null` for never, as in ioredis. Default 500; without `faults`, never in a
   * third of the turns.
   */
  readonly commandTimeoutMs?: number | null;
  /**
   * What counts as a failure. Default all of {@link ViolationKind} but `effect`. With `effect`, clients also write to a
   * resource that looks at nothing while they hold the lock, having looked at it just before: under a pause beyond its
   * TTL no lock alone withstands that.
   */
  readonly kinds?: readonly ViolationKind[];
  /** Connections may deliver later commands first, as reconnects and pools do. Default: in half of the cases. */
  readonly reordering?: boolean;
  /**
   * Where the schedule of a failure is written, and a page that shows its run, below the working directory. Default
   * `.lockstep/libraries`.
   */
  readonly reportTo?: string;
  /** Where a page for those who have to show the result is written if nothing fails, such as `lock-report.html`. Default: none. */
  readonly passTo?: string;
  /**
   * The file of a failure, as its message names it: runs its schedule, and nothing is drawn. Of the other options,
   * `kinds`, `commandTimeoutMs`, `reportTo`, `debug` and `signal` still count.
   */
  readonly replay?: string;
  /**
   * With `replay`, for stepping through a client: runs the schedule once, behind the rehearsal without faults that each search
   * begins with, prints each event with its time and process to stderr, and stops a debugger that is attached where something is
   * found to be wrong. What the client prints gets its process and its time as well. Default `false`.
   */
  readonly debug?: boolean;
  /** Ends the search when it aborts, with its reason. Test runners abort the signal of a test that is out of time. */
  readonly signal?: AbortSignal;
}

/** What is not said otherwise counts as a failure. */
export const DEFAULT_KINDS: readonly ViolationKind[] = VIOLATION_KINDS.filter((kind) => kind !== 'effect');

/** What timers of Node take at most. */
const LONGEST_MS = 2 ** 31 - 1;

function count(low: number, high: number, what = ''): Range {
  return { low, high, right: `a whole number ${what}from ${low} to ${high}` };
}

const share = () => {
  const error = wrong('a number from 0 to 1');
  return z.number({ error }).min(0, { error }).max(1, { error }).optional();
};
const amount = () => whole(count(0, 100)).optional();
const millis = (low: number) => whole(count(low, LONGEST_MS, 'of milliseconds '));

const faults = {
  crash: amount(),
  pause: amount(),
  partition: amount(),
  wallStep: amount(),
  skewMs: millis(0).optional(),
  driftPpm: whole(count(0, 500_000, 'of parts per million ')).optional(),
  loss: share(),
  delay: share(),
} satisfies Record<keyof TestFaults, z.ZodType>;

const options = {
  faults: record('faults', faults).optional(),
  runs: whole(count(1, 1_000_000)).optional(),
  seed: z.string({ error: wrong('a text') }).optional(),
  nodes: whole(count(1, 31)).optional(),
  clients: whole(count(1, 31)).optional(),
  tasks: z.literal([1, 2], { error: wrong('1 or 2') }).optional(),
  ttlMs: millis(1).optional(),
  restartDelayMs: millis(0).optional(),
  commandTimeoutMs: millis(1).nullish(),
  kinds: someOf(oneOf(...VIOLATION_KINDS), 'a list of at least one kind').optional(),
  reordering: flag().optional(),
  reportTo: text('the path of a folder').optional(),
  passTo: text('the path of a page').optional(),
  replay: text('the path of a file').optional(),
  debug: flag().optional(),
  signal: z.instanceof(AbortSignal, { error: wrong('an AbortSignal') }).optional(),
} satisfies Record<keyof ExpectSafeOptions, z.ZodType>;

const grammar = record('the options', options);

/** @throws InputError for an option that there is not, or whose value is wrong: vitest does not check types. */
export function checkOptions(given: unknown): void {
  const result = grammar.safeParse(given);
  if (result.success) {
    if (result.data.debug === true && result.data.replay === undefined)
      throw new InputError('expectSafe: debug: it needs replay, the file of a failure');
    return;
  }
  const { issues } = result.error;
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0];
  const key = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const path = [...(issue?.path ?? []), ...(key === undefined ? [] : [key])];
  const problem = (key === undefined ? undefined : misplaced(path, key)) ?? issue?.message;
  throw new InputError(`${['expectSafe', path.join('.')].filter((it) => it !== '').join(': ')}: ${problem}`);
}

/** An option in the wrong place has its right name. */
function misplaced(path: readonly PropertyKey[], key: string): string | undefined {
  if (path.length === 1 && Object.hasOwn(faults, key)) return `it belongs into faults: { ${key}: … }`;
  return path.length > 1 && Object.hasOwn(options, key) ? 'it belongs beside faults, not into them' : undefined;
}

/** What of `kinds` nothing in these options can bring about, as far as they tell. */
export function untestable(
  kinds: readonly ViolationKind[],
  { faults: of = {}, clients }: ExpectSafeOptions,
): ViolationKind[] {
  const { pause = 0, wallStep = 0 } = of;
  return kinds.filter(
    (kind) => (kind === 'effect' && pause === 0 && wallStep === 0) || (kind === 'belief' && clients === 1),
  );
}
