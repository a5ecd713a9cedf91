import { flag, oneOf, type Range, record, someOf, text, whole, wrong } from '../scenarios/grammar-parts.js';
import { InputError } from '../scenarios/input-error.js';
import * as z from '../scenarios/zod.js';
import { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';

/** The faults of a test. All are optional. An omitted fault does not occur: `{}` is a network without faults. */
export interface TestFaults {
  /** Maximum number of node crashes per run. A node loses its data and restarts after `restartDelayMs`. */
  readonly crash?: number;
  /** Maximum number of pauses per run, of clients and nodes, of up to two TTLs. */
  readonly pause?: number;
  /** Maximum number of partitions per run: a client cannot reach some nodes for a while. */
  readonly partition?: number;
  /** Maximum number of steps of client wall clocks per run, of up to two TTLs. */
  readonly wallStep?: number;
  /** Sum of the steps forward of node clocks, ms. Default 0. */
  readonly skewMs?: number;
  /** Clock drift, parts per million: node clocks are fast and client clocks slow. Default 0, at most 500000. */
  readonly driftPpm?: number;
  /** Share of messages lost, 0 to 1. Default 0. */
  readonly loss?: number;
  /** Share of messages that are delayed, by up to 1.5 TTL, 0 to 1. Default 0. */
  readonly delay?: number;
}

/** Options of {@link expectSafe}. An unknown option or a wrong value is rejected. */
export interface ExpectSafeOptions {
  /**
   * Default: the fault classes that a lock must withstand, one by one and then together. They are small losses, partitions,
   * late and reordered messages, drift, delayed restarts, pauses, silent nodes under locks that extend themselves, a dead node,
   * four nodes, processes that die while they acquire, late extensions, clients that start in one instant, and a minority of
   * nodes that is dead, hung, returns errors, or whose replies are lost. A dead node and such a minority stay faulty to the
   * end. Everything else heals, and then each client acquires once more, alone. The default does not include restarts that
   * are too early, or clocks that are set.
   */
  readonly faults?: TestFaults;
  /** Number of cases. Default 100. */
  readonly runs?: number;
  /** Random seed: any string. Default `lockstep`. */
  readonly seed?: string;
  /** Number of nodes, 1 to 31. Default 5. Use 1 for a lock on one node: it never holds a majority of five. */
  readonly nodes?: number;
  /** Number of clients that compete for one lock. Default 3, at most 31. */
  readonly clients?: number;
  /**
   * Number of concurrent acquisitions of one process. Default: without `faults`, 2 in one of ten cases, if the client returns a
   * new object for each acquisition. Use 1 for a reentrant lock, which any task of a process may acquire again.
   */
  readonly tasks?: 1 | 2;
  /** TTL of the locks, ms. Default 10000; without `faults`, at random 10000, 2500 or 730. */
  readonly ttlMs?: number;
  /** Downtime of a node after a crash, ms. Default: one TTL, which is safe. 0: it restarts at once. */
  readonly restartDelayMs?: number;
  /**
   * Time-out of commands of `nodes`, ms; `null` for none, as in ioredis. Default 500; without `faults`, none in a third of
   * the turns.
   */
  readonly commandTimeoutMs?: number | null;
  /**
   * What counts as a failure. Default: every {@link ViolationKind} except `effect`. With `effect`, clients also check their lock
   * and then write to a resource that does not check tokens. No lock alone withstands a pause beyond its TTL there.
   */
  readonly kinds?: readonly ViolationKind[];
  /** Whether connections may reorder commands, as reconnects and pools do. Default: in half of the cases. */
  readonly reordering?: boolean;
  /**
   * Folder for the schedule of a failure and the page of its run, below the working directory. Default
   * `.lockstep/libraries`.
   */
  readonly reportTo?: string;
  /** Path of a report page that is written if the test passes, such as `lock-report.html`. Default: none. */
  readonly passTo?: string;
  /**
   * File of a failure, as its message names it: replays its schedule only. Of the other options, only `kinds`,
   * `commandTimeoutMs`, `reportTo`, `debug` and `signal` apply.
   */
  readonly replay?: string;
  /**
   * With `replay`, for stepping through a client: runs the schedule once, after the run without faults that begins each search.
   * Prints each event with its time and process to stderr, and does the same for output of the client. Stops an attached debugger
   * where a violation is found. Default `false`.
   */
  readonly debug?: boolean;
  /** Ends the search when it aborts, with its reason. Test runners abort the signal of a test that times out. */
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
