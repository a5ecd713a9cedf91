import { type ClientPlan, plainCluster, plainLock, type Schedule } from '../../scenarios/index.js';
import { type PieceKind, piecesOf } from '../../search/shrinking/pieces.js';
import { RandomStreams } from '../../sim/index.js';
import { isGreetingSaid } from '../frames.js';
import { memberIndex } from '../member-index.js';
import { aloneOf, arranged, type Loaded, type Migration, mixOf } from '../mix.js';
import { type LibraryRun, replayLibraries, replayLibrariesAtOnce } from '../run.js';
import { inMacrotask } from '../runtime/drain.js';
import type { LockFactory } from '../session.js';
import { type FaultClass, onNodes, PAIR_CLASSES } from './fault-classes.js';
import { kindOf } from './kinds.js';
import { drawLibraryRun } from './search.js';
import { shrinkForLibrary } from './shrink-libraries.js';

/** How two libraries are put beside each other, and how long is searched. */
export interface PairPlan extends Migration {
  /** Schedules of each class of faults. */
  readonly runs: number;
  readonly seed: string;
}

/** What came of two libraries beside each other. */
export interface PairResult {
  readonly verdict: 'safe' | 'unsafe';
  /** The class of faults that it took; `null` where nothing was found. */
  readonly fault: string | null;
  /** Made small. */
  readonly schedule: Schedule | null;
  /** What that schedule says: locks asked for, extended and released, faults, messages lost or late, wrong clocks. */
  readonly events: number;
  /** Classes of faults that one of the two does not withstand by itself, so that they were left out. */
  readonly left: readonly string[];
  /** Schedules that were drawn. */
  readonly runs: number;
}

/** What is known of a library before it is put beside others. */
export interface AloneResult {
  /** The classes of faults in which no two of its clients held the lock. */
  readonly withstood: readonly string[];
  /** What it sends for one lock, from its acquisition to its release. */
  readonly commands: readonly string[];
}

const KIND = 'belief';
const CLIENTS = ['c1', 'c2', 'c3'];
const TTL_MS = 4_000;
const SECOND_US = 1_000_000;

function plainSchedule(nodes: number, clients: Schedule['clients']): Schedule {
  const schema = 'lockstep.schedule/2';
  const policy = { profile: 'reference', habits: { clock: 'wall' } } as const;
  return { schema, cluster: plainCluster(nodes), policy, clients, faults: [], fates: [], untilUs: 2 * SECOND_US };
}

/**
 * Tried before anything is drawn: the old one holds the lock, and the other asks for it; the other gives it back, and asks
 * again while the old one has it.
 */
function probes(nodes: number): Schedule[] {
  const old = (atUs: number): ClientPlan => ({ id: 'c1', locks: [plainLock(atUs, TTL_MS)] });
  const again = [plainLock(0, TTL_MS, { holdUs: SECOND_US / 2 }), plainLock(SECOND_US, TTL_MS)];
  return [
    plainSchedule(nodes, [old(0), { id: 'c2', locks: [plainLock(SECOND_US, TTL_MS)] }]),
    plainSchedule(nodes, [old(SECOND_US / 4), { id: 'c2', locks: again }]),
  ];
}

/** A class that a library does not withstand is to be known as one, however seldom it fails in it. */
const ALONE = 4;

/** What one library does by itself, on so many nodes. */
export async function testAlone(it: Loaded, plan: PairPlan): Promise<AloneResult> {
  const alone = { ...mixOf(it, it, false), name: it.name };
  const withstood: string[] = [];
  for (const faults of classesOn(plan.nodes, alone)) {
    const fails = await firstOf(
      alone,
      faults,
      { ...plan, runs: ALONE * plan.runs },
      ({ violations }) => violations.length > 0,
    );
    if (fails === null) withstood.push(faults.id);
  }
  const once = plainSchedule(1, [{ id: 'c1', locks: [plainLock(0, TTL_MS, { holdUs: 500_000 })] }]);
  const { frames } = await replayLibraries(it, once, { trace: true });
  const commands = [...new Set(frames.map(({ said }) => said))].filter((said) => !isGreetingSaid(said));
  return { withstood, commands };
}

function classesOn(nodes: number, { members }: LockFactory): FaultClass[] {
  const views = CLIENTS.map((client) => {
    const told = members?.[memberIndex(client)]?.nodes;
    return told === undefined ? {} : { nodes: told };
  });
  return PAIR_CLASSES.flatMap((it) => onNodes(it, nodes) ?? []).map((it) => ({ ...it, views }));
}

/**
 * Searches for a schedule on which somebody else gets the lock that a client of the old library holds, though neither library
 * by itself lets that happen on it: without faults first, then with those that each of the two withstands.
 */
export async function searchPair(
  old: Loaded,
  joining: Loaded,
  withstood: (id: string) => boolean,
  plan: PairPlan,
): Promise<PairResult> {
  const mix = mixOf(old, joining, plan.sameKey);
  const classes = classesOn(plan.nodes, mix);
  const left = classes.map(({ id }) => id).filter((id) => !withstood(id));
  for (const it of probes(plan.nodes)) {
    const first = arranged(it, mix);
    if (await isOfMix(mix, first)) return { left, runs: 0, ...unsafe('calm', await ended(mix, first)) };
  }
  let runs = 0;
  for (const faults of classes) {
    if (!withstood(faults.id)) continue;
    const found = await firstOf(mix, faults, plan, ({ violations, uncaught }, schedule) => {
      runs++;
      return violations.length > 0 && uncaught.length === 0 && isOfMix(mix, schedule);
    });
    if (found === null) continue;
    const { schedule } = await shrinkForLibrary(mix, await ended(mix, found), KIND);
    return { left, runs, ...unsafe(faults.id, await ended(mix, schedule)) };
  }
  return { verdict: 'safe', fault: null, schedule: null, events: 0, left, runs };
}

function unsafe(fault: string, schedule: Schedule): Pick<PairResult, 'verdict' | 'fault' | 'schedule' | 'events'> {
  return { verdict: 'unsafe', fault, schedule, events: eventsOf(schedule) };
}

const EVENTS: readonly PieceKind[] = ['operation', 'fault', 'message', 'clock'];

/** How many things a schedule says that clients do, or that go wrong. */
export function eventsOf(schedule: Schedule): number {
  return piecesOf(schedule).filter(({ kind }) => EVENTS.includes(kind)).length;
}

/** Without what comes after its violation, from the next whole second on. */
async function ended(mix: LockFactory, schedule: Schedule): Promise<Schedule> {
  const untilUs = Math.ceil(((await violatedAt(mix, schedule)) + 1) / SECOND_US) * SECOND_US;
  const cut = { ...schedule, untilUs };
  return untilUs < schedule.untilUs && (await isOfMix(mix, cut)) ? cut : schedule;
}

async function violatedAt(mix: LockFactory, schedule: Schedule): Promise<number> {
  return (await replayLibraries(mix, schedule)).violations[0]?.atUs ?? schedule.untilUs;
}

type Counts = (run: LibraryRun, schedule: Schedule) => boolean | Promise<boolean>;

/** The schedule of the first run of a class that counts; `null` where none does. */
async function firstOf(
  subject: LockFactory,
  faults: FaultClass,
  { runs, seed }: Pick<PairPlan, 'runs' | 'seed'>,
  counts: Counts,
): Promise<Schedule | null> {
  const streams = new RandomStreams(seed);
  for (let number = 0; number < runs; number++) {
    const run = await drawLibraryRun(subject, faults, streams, number, 'at-once');
    if (await counts(run, run.schedule)) return run.schedule;
  }
  return null;
}

/** Whether two libraries beside each other fail on a schedule, and neither does by itself. */
export function isOfMix(mix: LockFactory, schedule: Schedule): Promise<boolean> {
  const fails = (of: LockFactory, its: Schedule): boolean =>
    replayLibrariesAtOnce(of, its).violations.some((it) => kindOf(it) === KIND);
  return inMacrotask(() => fails(mix, schedule) && !aloneOf(mix, schedule).some(([of, its]) => fails(of, its)));
}
