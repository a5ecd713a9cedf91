import fc from 'fast-check';
import type {
  ClientPlan,
  ClockPlan,
  ExtensionPlan,
  Fate,
  Fault,
  LockPlan,
  Schedule,
  WritePlan,
} from '../../scenarios/index.js';
import { nodeName } from '../../sim/index.js';
import { given, kept } from './given.js';
import { instant, shift, time } from './time.js';

/** The parts of a schedule that vary: everything but the cluster's make-up, the policy and the horizon. */
export type ScheduleBody = Pick<Schedule, 'clients' | 'faults' | 'fates'> & { readonly clocks: readonly ClockPlan[] };

/** What generated courses are about. */
interface CourseOptions {
  readonly nodes: number;
  readonly clients: number;
  readonly ttlMs: number;
  readonly untilUs: number;
  /** Fault kinds to draw from. */
  readonly faults: readonly Fault['kind'][];
  /** Crashes restart after this at the earliest, µs. */
  readonly leastRestartUs: number;
  /** Disks may be set back to an older state in a crash, whatever the persistence. Default `false`. */
  readonly setBackDisks?: boolean;
  /** Clients may have nodes and keys of their own, and replicas may be nodes. Default `false`. */
  readonly apart?: boolean;
  /** Most faults and most fates of messages in a course. */
  readonly mostFaults: number;
  readonly mostFates: number;
}

const MOST_US = 2 ** 31;
const MILLION = 1_000_000;

/** Courses that shrink, also those that somebody else made: by leaving things out and by rounding times. */
export function courseArbitrary(options: CourseOptions): fc.Arbitrary<ScheduleBody> {
  return fc.record({
    clients: fc.array(clientArbitrary(options), { minLength: 1, maxLength: options.clients }),
    faults: fc.array(faultArbitrary(options), { maxLength: options.mostFaults }),
    fates: fc.array(fateArbitrary(options), { maxLength: options.mostFates }),
    clocks: fc.array(clockArbitrary(options), { maxLength: options.nodes + options.clients }),
  }) as fc.Arbitrary<ScheduleBody>;
}

function clientName(options: CourseOptions): fc.Arbitrary<string> {
  return fc.constantFrom(...Array.from({ length: options.clients }, (_, i) => `c${i + 1}`));
}

function aNode(options: CourseOptions): fc.Arbitrary<string> {
  return fc.constantFrom(...Array.from({ length: options.nodes }, (_, i) => nodeName(i)));
}

function anyProcess(options: CourseOptions): fc.Arbitrary<string> {
  return fc.oneof(aNode(options), clientName(options));
}

/** Clients with their work: locks, extensions, writes. */
function clientArbitrary(options: CourseOptions): fc.Arbitrary<ClientPlan> {
  const locks = fc.array(lockArbitrary(options), { maxLength: 64 });
  const own = options.apart === true ? { nodes: nodeList(options), keyPrefix: given('x:'), timing: given({}) } : {};
  return fc.record(
    { id: clientName(options), ...own, locks },
    { requiredKeys: ['id', 'locks'] },
  ) as fc.Arbitrary<ClientPlan>;
}

/** What a client is told of: from another list nothing is left out, because that would be another membership. */
function nodeList({ nodes }: CourseOptions): fc.Arbitrary<readonly string[]> {
  return given<readonly string[]>(Array.from({ length: nodes }, (_, i) => nodeName(i)));
}

function lockArbitrary(options: CourseOptions): fc.Arbitrary<LockPlan> {
  return fc.record({
    atUs: instant(options.untilUs),
    resources: given<readonly string[]>(['a']),
    ttlMs: given(options.ttlMs),
    holdUs: fc.option(time(MOST_US), { nil: null }),
    extensions: fc.array(extensionArbitrary(options), { maxLength: 16 }),
    writes: fc.array(writeArbitrary(), { maxLength: 16 }),
    jitterPpm: fc.array(fc.integer({ min: 0, max: MILLION - 1 }), { maxLength: 4096 }),
  });
}

function extensionArbitrary(options: CourseOptions): fc.Arbitrary<ExtensionPlan> {
  return fc.record({ afterUs: time(MOST_US), ttlMs: given(options.ttlMs) });
}

function writeArbitrary(): fc.Arbitrary<WritePlan> {
  return fc.record({
    checkAfterUs: time(MOST_US),
    // A client that is less careful fails in another way.
    guardUs: kept(fc.option(time(MOST_US), { nil: null })),
    sendAfterUs: time(MOST_US),
    delayUs: time(MOST_US),
  });
}

/** Faults of the kinds asked for. */
function faultArbitrary(options: CourseOptions): fc.Arbitrary<Fault> {
  const when: When = { atUs: instant(options.untilUs), edge: fc.constantFrom('before' as const, 'after' as const) };
  const kinds: FaultsByKind = { ...faultsOfNodes(options, when), ...faultsOfProcesses(options, when) };
  return fc.oneof(...options.faults.map((kind) => kinds[kind]));
}

/** When a fault strikes. */
interface When {
  readonly atUs: fc.Arbitrary<number>;
  readonly edge: fc.Arbitrary<'before' | 'after'>;
}

type FaultsByKind = Readonly<Record<Fault['kind'], fc.Arbitrary<Fault>>>;
type KindOfNodes = 'crash' | 'failover' | 'reconfigure' | 'data-loss' | 'error-replies';

/** What befalls nodes, and what clients are told of them. */
function faultsOfNodes(options: CourseOptions, when: When): Pick<FaultsByKind, KindOfNodes> {
  const failover = { kind: fc.constant('failover' as const), node: aNode(options), ...when };
  return {
    crash: fault({
      kind: fc.constant('crash' as const),
      node: aNode(options),
      power: fc.boolean(),
      clean: fc.boolean(),
      ageUs: options.setBackDisks === true ? time(MOST_US) : fc.constant(0),
      restartBy: fc.constantFrom('true-time' as const, 'node-clock' as const),
      ...when,
      restartAfterUs: fc.option(time(MOST_US, options.leastRestartUs), { nil: null }),
    }),
    failover: fc.oneof(
      fault(failover),
      ...(options.apart === true ? [fault({ ...failover, to: aNode(options), lagUs: time(MOST_US) }, ['to'])] : []),
    ),
    reconfigure: fault({
      kind: fc.constant('reconfigure' as const),
      client: clientName(options),
      nodes: nodeList(options),
      ...when,
    }),
    'data-loss': fault({
      kind: fc.constant('data-loss' as const),
      node: aNode(options),
      resource: given('a'),
      ...when,
    }),
    'error-replies': fault({
      kind: fc.constant('error-replies' as const),
      node: aNode(options),
      operations: fc.subarray(['acquire', 'extend', 'release'] as const, { minLength: 1 }),
      error: fc.constantFrom('OOM' as const, 'LOADING' as const),
      forUs: time(MOST_US, 1),
      ...when,
    }),
  };
}

/** What befalls clients, their clocks and those of nodes, and the links between them. */
function faultsOfProcesses(options: CourseOptions, when: When): Omit<FaultsByKind, KindOfNodes> {
  const forUs = time(MOST_US, 1);
  const process = anyProcess(options);
  const side = fc.uniqueArray(process, { minLength: 1, maxLength: 31 });
  return {
    'client-crash': fault(
      {
        kind: fc.constant('client-crash' as const),
        client: clientName(options),
        ...when,
        restartAfterUs: time(MOST_US),
      },
      ['restartAfterUs'],
    ),
    pause: fault({
      kind: fc.constant('pause' as const),
      process,
      ...when,
      forUs,
      first: fc.constantFrom('deliveries' as const, 'timers' as const),
    }),
    suspend: fault({
      kind: fc.constant('suspend' as const),
      process,
      ...when,
      forUs,
      stops: fc.constantFrom('monotonic' as const, 'all' as const),
    }),
    'clock-step': fault({ kind: fc.constant('clock-step' as const), process, ...when, byUs: shift(MOST_US) }),
    'clock-drift': fault({
      kind: fc.constant('clock-drift' as const),
      process,
      ...when,
      ratePpm: fc.integer({ min: -500_000, max: 500_000 }),
    }),
    partition: fault({
      kind: fc.constant('partition' as const),
      ...when,
      from: side,
      to: side,
      oneWay: fc.boolean(),
      forUs,
      holds: fc.boolean(),
    }),
  };
}

/** What a fault may leave out. */
const OPTIONAL: readonly PropertyKey[] = [
  'edge',
  'power',
  'resource',
  'first',
  'stops',
  'lagUs',
  'holds',
  'clean',
  'ageUs',
  'restartBy',
  'error',
];

/** A fault, with or without what it may leave out; `optional` names what others have to say. */
function fault<T extends { readonly edge?: 'before' | 'after' }>(
  model: { readonly [K in keyof T]-?: fc.Arbitrary<NonNullable<T[K]> | T[K]> },
  optional: readonly PropertyKey[] = [],
): fc.Arbitrary<T> {
  const required = (Object.keys(model) as (keyof T)[]).filter((key) => ![...OPTIONAL, ...optional].includes(key));
  return fc.record(model as never, { requiredKeys: required as never }) as fc.Arbitrary<T>;
}

/** What becomes of single messages. */
function fateArbitrary(options: CourseOptions): fc.Arbitrary<Fate> {
  const count = fc.nat({ max: 4096 });
  return fc.record(
    {
      client: clientName(options),
      lock: count,
      attempt: count,
      operation: fc.constantFrom('acquire' as const, 'extend' as const, 'release' as const),
      round: count,
      node: aNode(options),
      direction: fc.constantFrom('request' as const, 'reply' as const),
      send: count,
      delayUs: time(MOST_US),
      lost: fc.boolean(),
      duplicateDelayUs: time(MOST_US),
      resendAfterUs: time(MOST_US),
    },
    { requiredKeys: ['client', 'operation', 'node', 'direction'] },
  ) as fc.Arbitrary<Fate>;
}

function clockArbitrary(options: CourseOptions): fc.Arbitrary<ClockPlan> {
  return fc.record({
    process: anyProcess(options),
    offsetUs: shift(3_600_000_000),
    ratePpm: fc.integer({ min: -500_000, max: 500_000 }),
  });
}
