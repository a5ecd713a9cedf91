import { type Policy, REFERENCE } from '../deviations/index.js';
import type { Cluster, ResourceGuard } from '../scenarios/index.js';

/**
 * An assumption of the lock that a run can stress: that clocks run alike, that they do not jump, that a node stays away
 * until the claims that it voted for are over, that no more nodes forget than there are votes to spare, and that writes
 * arrive within the validity that they were checked for.
 */
export const BOUND_IDS = ['clock-drift', 'clock-step', 'restart-delay', 'data-loss', 'write-delay'] as const;

/** An assumption of the lock that a run may stress. */
export type BoundId = (typeof BOUND_IDS)[number];

/** The bound of each, as a factor: 1 goes up to it, 1.02 goes 2 % past it. 0 leaves it out. */
type BoundFactors = Readonly<Record<BoundId, number>>;

/**
 * What a random search may do to the lock. Each run stresses at most one assumption and mixes in whatever else is
 * allowed: what the lock has to withstand at any time (loss, delay, copies, partitions, pauses, dead clients).
 */
export interface FaultModel {
  readonly nodes: number;
  readonly clients: number;
  /** TTLs to choose from, one a run, ms. */
  readonly ttlsMs: readonly [number, ...number[]];
  readonly policy: Policy;
  /** With anything but `none`, clients write. */
  readonly resource: ResourceGuard;
  readonly persistence: Cluster['persistence'];
  /** Nodes that keep what they acknowledged, and lose it with the power: they answer before it is on disk (a bug to plant). */
  readonly answersEarly: boolean;
  /** The list of the first client names a node twice, in place of another (a bug to plant). */
  readonly namesTwice: boolean;
  /** When a key is gone: past its expiry, or at it. */
  readonly expiry: Cluster['expiry'];
  /** Clocks are off by up to this, ms, which never matters unless somebody makes tokens of them. */
  readonly longestOffsetMs: number;
  /** How far each assumption is strained, against the bound computed for the policy and the run's TTL. */
  readonly stretch: BoundFactors;
  /** Overrides the bound: nodes come back after this, µs of true time. */
  readonly restartDelayUs: number | null;
  /** Overrides the bound: the sum of steps, µs. */
  readonly stepUs: number | null;
  /** Overrides the bound: rate error on both sides, ppm. */
  readonly ratePpm: number | null;
  /** Most nodes a run whose process dies, or is shut down in order, and most that lose their power. */
  readonly crashes: number;
  readonly powerLosses: number;
  /** Most nodes a run that go down in either way; `null` for as many as there may be of both. */
  readonly mostDown: number | null;
  /** Most pauses, dead clients and partitions a run. */
  readonly pauses: number;
  /** Most suspends that the wall clock and the time since boot take notice of, and a monotonic clock does not. */
  readonly suspends: number;
  /** Most steps of clients' wall clocks, of any size. */
  readonly wallSteps: number;
  readonly clientCrashes: number;
  readonly partitions: number;
  /** Most failovers to a replica, and how far behind that is, µs: 0 has everything. */
  readonly failovers: number;
  readonly replicaLagUs: number;
  /** Most nodes that lose their keys while a claim lasts, however few votes that leaves. */
  readonly flushes: number;
  /** In some runs a minority of nodes is out of order from the beginning to the end, in ways that are among these faults. */
  readonly outages: boolean;
  /** At all times a quorum of the nodes knows its fencing counter, whatever else they lose: nothing is taken from more at once. */
  readonly counters: boolean;
  /** In some runs nodes keep what they acknowledged, and are back at once after a crash. */
  readonly durable: boolean;
  /** In some runs nodes write to a disk every second, and those that lose their power, and with it the last of that, stay away. */
  readonly disks: boolean;
  /** In some runs scripts go to nodes by their hashes, which new processes do not know. */
  readonly byHash: boolean;
  /** In some runs clients read different clocks, and are told of their validity in different ways. */
  readonly ownTiming: boolean;
  /** In some runs nodes are at different distances from clients. */
  readonly distances: boolean;
  /** Whether messages between a client and a node keep their order. Default: in half of the runs. */
  readonly link?: 'fifo' | 'reordering';
  /** Most nodes that answer with errors for a while. */
  readonly refusals: number;
  /** Share of messages lost, copied, and held up for long in a bad run, ppm. */
  readonly lossPpm: number;
  readonly duplicatePpm: number;
  readonly spikePpm: number;
}

/** Everything that the lock claims to withstand, up to the edge of its assumptions. */
export const WITHIN_ASSUMPTIONS: FaultModel = Object.freeze<FaultModel>({
  nodes: 5,
  clients: 3,
  ttlsMs: [1_000, 10_000, 30_000],
  policy: REFERENCE,
  resource: 'none',
  persistence: 'none',
  answersEarly: false,
  namesTwice: false,
  expiry: 'after',
  longestOffsetMs: 3_600_000,
  stretch: { 'clock-drift': 1, 'clock-step': 1, 'restart-delay': 1, 'data-loss': 1, 'write-delay': 1 },
  restartDelayUs: null,
  stepUs: null,
  ratePpm: null,
  crashes: 2,
  powerLosses: 2,
  mostDown: 2,
  pauses: 2,
  suspends: 1,
  wallSteps: 1,
  clientCrashes: 1,
  partitions: 2,
  failovers: 1,
  replicaLagUs: 0,
  flushes: 0,
  outages: true,
  counters: true,
  durable: true,
  disks: true,
  byHash: true,
  ownTiming: true,
  distances: true,
  refusals: 2,
  lossPpm: 50_000,
  duplicatePpm: 20_000,
  spikePpm: 30_000,
});

/** What a fault model has amounts of. */
type FaultLimit =
  | 'crashes'
  | 'powerLosses'
  | 'mostDown'
  | 'pauses'
  | 'suspends'
  | 'wallSteps'
  | 'clientCrashes'
  | 'partitions'
  | 'failovers'
  | 'replicaLagUs'
  | 'flushes'
  | 'outages'
  | 'counters'
  | 'durable'
  | 'disks'
  | 'byHash'
  | 'ownTiming'
  | 'distances'
  | 'refusals'
  | 'lossPpm'
  | 'duplicatePpm'
  | 'spikePpm';

/** None of them. */
export const NO_FAULTS: Pick<FaultModel, FaultLimit> = {
  counters: false,
  crashes: 0,
  powerLosses: 0,
  mostDown: null,
  pauses: 0,
  suspends: 0,
  wallSteps: 0,
  clientCrashes: 0,
  partitions: 0,
  failovers: 0,
  replicaLagUs: 0,
  flushes: 0,
  outages: false,
  durable: false,
  disks: false,
  byHash: false,
  ownTiming: false,
  distances: false,
  refusals: 0,
  lossPpm: 0,
  duplicatePpm: 0,
  spikePpm: 0,
};

/** Most nodes a run that go down, in whichever way. */
export function mostDownOf({ crashes, powerLosses, mostDown }: FaultModel): number {
  return Math.min(crashes + powerLosses, mostDown ?? Number.POSITIVE_INFINITY);
}

/** No assumption is strained. */
export const NO_STRETCH: BoundFactors = Object.freeze({
  'clock-drift': 0,
  'clock-step': 0,
  'restart-delay': 0,
  'data-loss': 0,
  'write-delay': 0,
});

/** The same fault model with one bound passed by `factor` (1.02: by 2 %) and the other assumptions kept out of it. */
export function exceedBound(faultModel: FaultModel, bound: BoundId, factor: number): FaultModel {
  return { ...faultModel, stretch: { ...NO_STRETCH, [bound]: factor } };
}
