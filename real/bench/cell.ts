import { randomBytes } from 'node:crypto';
import { isLibraryInstalled } from '../client-libraries.js';
import { clientSubjects } from './clients.js';
import type { BenchCluster } from './cluster.js';
import { type Load, measure, Series } from './measure.js';
import { isInstalled, PEERS } from './peers.js';
import {
  type MakeSubject,
  makeFloor,
  makeLockstep,
  makePipelinedFloor,
  makeQuorumFloor,
  type Retries,
  type Subject,
} from './subjects.js';
import type { BenchOptions, Health, Shape, SubjectName } from './types.js';

/** What is measured together: the subjects in turns, on the same nodes, in the same rounds. */
export interface Cell {
  readonly nodes: number;
  readonly shape: Shape;
  readonly health: Health;
}

/** A cell and what was measured in it. */
export interface CellResult extends Cell {
  readonly series: ReadonlyMap<SubjectName, Series>;
  /** In bad health: the lock on other, healthy nodes, in the same rounds. */
  readonly healthy: Series | null;
}

const FLOORS: readonly MakeSubject[] = [makeFloor, makeQuorumFloor, makePipelinedFloor];

/** Nobody contends in most cells; what is tried again there is what a slow machine made late. */
const FEW_RETRIES: Retries = { count: 2, delayMs: 50, jitterMs: 10 };
/** As often as it takes, at the pace that the libraries have been compared at before. */
const ENDLESS_RETRIES: Retries = { count: Infinity, delayMs: 10, jitterMs: 5 };

/** Peers have been seen to stall for up to 14 s on one dead node. */
const STALL_MS = 15_000;

const OPERATIONS: Readonly<Record<Shape, number>> = {
  serial: 300,
  concurrent64: 2500,
  contended16: Number.POSITIVE_INFINITY,
  extend: 400,
};
const CONTENDED_MS = 700;
const WARM_UP = 2500;
const WARM_UP_MS = 1000;
const BAD_HEALTH_OPERATIONS = 150;
const BAD_HEALTH_MS = 400;

function loadOf({ shape, health }: Cell, effort: number): Load {
  if (health !== 'healthy') {
    const operations = Math.ceil(BAD_HEALTH_OPERATIONS * effort);
    return { shape, operations, durationMs: Math.ceil(BAD_HEALTH_MS * effort), limitMs: STALL_MS };
  }
  const durationMs = shape === 'contended16' ? CONTENDED_MS * effort : Number.POSITIVE_INFINITY;
  return { shape, operations: Math.ceil(OPERATIONS[shape] * effort), durationMs, limitMs: null };
}

/**
 * Connects, and lets the compiler finish with everybody, however little is measured: code that was not compiled yet has
 * been seen to cost 30 % more.
 */
function warmUpOf(load: Load): Load {
  const { operations, durationMs } = load;
  return { ...load, operations: Math.max(operations, WARM_UP), durationMs: Math.min(WARM_UP_MS, durationMs) };
}

/** What is measured, and whom of others. */
export type Resolved = BenchOptions & { readonly rounds: number; readonly effort: number; readonly peers: boolean };

/** Makes a subject that works on a cluster. */
type MakeOn = (cluster: BenchCluster, retries: Retries) => Promise<Subject>;

function ofIoredis(make: MakeSubject): MakeOn {
  return (cluster, retries) => make((given) => cluster.makeClients(given), retries);
}

/** Who takes part: floors do not contend, and do not end where a node does not answer. */
function takingPart({ shape, health }: Cell, { peers, clients = [] }: Resolved): MakeOn[] {
  const hasFloors = shape !== 'contended16' && health === 'healthy';
  const others = peers ? PEERS.filter(isInstalled).map(({ make }) => make) : [];
  const onClients = health === 'healthy' ? clients.filter(isLibraryInstalled).map(clientSubjects) : [];
  return [
    ...[makeLockstep, ...(hasFloors ? FLOORS : []), ...others].map(ofIoredis),
    ...onClients.flatMap((makes) => (hasFloors ? makes : makes.slice(0, 1))),
  ];
}

/** How many measurements a cell takes. */
export function measurementsOf(cell: Cell, options: Resolved): number {
  return options.rounds * (takingPart(cell, options).length + (cell.health === 'healthy' ? 0 : 1));
}

/** Measures a cell on `cluster`, and in bad health the lock on `healthyCluster` beside it. */
export async function runCell(
  cell: Cell,
  options: Resolved,
  cluster: BenchCluster,
  healthyCluster: BenchCluster | null,
  onMeasured: () => void,
): Promise<CellResult> {
  const { rounds, effort, signal } = options;
  const load = loadOf(cell, effort);
  const retries = cell.shape === 'contended16' ? ENDLESS_RETRIES : FEW_RETRIES;
  const prefix = `lockstep:bench:${randomBytes(4).toString('hex')}`;
  const turns: { readonly subject: Subject; readonly series: Series; readonly key: string }[] = [];
  const add = async (make: MakeOn, on: BenchCluster) => {
    const subject = await make(on, retries);
    turns.push({ subject, series: new Series(), key: `${prefix}:${turns.length}` });
  };
  try {
    await cluster.prepare(cell.health);
    for (const make of takingPart(cell, options)) await add(make, cluster);
    const own = turns.length;
    if (healthyCluster !== null) await add(ofIoredis(makeLockstep), healthyCluster);
    for (const { subject, key } of turns) await measure(subject, warmUpOf(load), key, new Series(), signal);
    await cluster.harm(cell.health);
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < turns.length; turn++) {
        const it = turns[(round + turn) % turns.length];
        if (it === undefined || signal?.aborted) continue;
        if (cell.health === 'healthy' || !it.series.isEnough)
          await measure(it.subject, load, it.key, it.series, signal);
        onMeasured();
      }
    }
    const series = new Map(turns.slice(0, own).map((it) => [it.subject.name, it.series]));
    return { ...cell, series, healthy: turns[own]?.series ?? null };
  } finally {
    await Promise.all(turns.map(({ subject }) => subject.close()));
    await cluster.heal(cell.health);
    await healthyCluster?.heal('healthy');
  }
}
