import { type Policy, policyWith } from '../../deviations/index.js';
import type { Cluster } from '../../scenarios/index.js';
import { type FaultModel, NO_FAULTS, NO_STRETCH } from '../../search/fault-model.js';
import type { ClientView } from '../../sim/index.js';
import type { ConnectionTroubleOptions } from './connection-trouble.js';

/** A column of the matrix: what is done to a library, and nothing else. */
export interface FaultClass {
  /** How it is named in commands. */
  readonly id: string;
  /** A few words for a table, and a sentence. */
  readonly title: string;
  readonly story: string;
  readonly faultModel: Partial<FaultModel>;
  /** Whether connections keep the order of what is sent; both, by chance, where left out. */
  readonly link?: Cluster['link'];
  /** Locks extend themselves, where a library can do that. */
  readonly extendsItself?: boolean;
  /** Every run has this kind of trouble, not only a part of them. */
  readonly always?: 'spikes' | 'losses' | 'pauses' | 'partitions' | 'wallSteps';
  /** One node is dead from the beginning to the end. */
  readonly deadNode?: boolean;
  /** What happens to connections, of clients that open their own. */
  readonly connections?: ConnectionTroubleOptions;
  /** A whole minority is like this from the beginning to the end; `mute` carries out what it hears, and is not heard. */
  readonly minority?: 'dead' | 'hung' | 'refusing' | 'mute';
  /** Processes die as they acquire, between any two of their commands. */
  readonly dying?: boolean;
  /** Those who have locks are cut off from the nodes for longer than a TTL, or those who ask for them are paused for up to two. */
  readonly strikes?: 'holders' | 'askers';
  /** Every lock is extended, some of them late. */
  readonly extending?: boolean;
  /** Locks are released about when their keys expire. */
  readonly lateRelease?: boolean;
  /** All clients begin in one instant, with clocks that show the same. */
  readonly atOnce?: boolean;
  /** When everything has healed, each client asks once more, alone. */
  readonly heals?: boolean;
  /** Each process makes two acquisitions at once: the second is of one of these. */
  readonly besides?: readonly [string, ...string[]];
  /** Each node has a replica so far behind, µs. */
  readonly replicaLagUs?: number;
  /** Clients write to a resource while they hold the lock, having looked at it just before. */
  readonly writes?: boolean;
  /** By client: which nodes it is told of, if not of all. */
  readonly views?: readonly ClientView[];
}

/** What the monitors take a library for: a lock by the wall clock, with the allowance for drift that redis.io names. */
export const LIBRARY_POLICY: Policy = policyWith({
  settings: { nodeTimeoutUs: 500_000, tries: 4 },
  habits: { clock: 'wall' },
});

/** Three clients who want one resource, on five nodes that lose nothing, with a network that is quick. */
const CALM: FaultModel = {
  nodes: 5,
  clients: 3,
  ttlsMs: [1_000, 4_000],
  policy: LIBRARY_POLICY,
  resource: 'none',
  persistence: 'none',
  answersEarly: false,
  namesTwice: false,
  expiry: 'after',
  longestOffsetMs: 3_600_000,
  stretch: NO_STRETCH,
  restartDelayUs: null,
  stepUs: null,
  ratePpm: null,
  ...NO_FAULTS,
};

/** What is drawn in a class of faults. */
export function weatherOf({ faultModel }: FaultClass): FaultModel {
  return { ...CALM, ...faultModel };
}

const RATE = { ...NO_STRETCH, 'clock-drift': 1 };
const RESTART = { ...NO_STRETCH, 'restart-delay': 1 };

/** The same faults on so many nodes; `null` for a class that is about another number, or that leaves no majority. */
export function onNodes(faults: FaultClass, nodes: number | undefined): FaultClass | null {
  if (nodes === undefined) return faults;
  if (faults.faultModel.nodes !== undefined || (faults.deadNode && nodes < 3)) return null;
  return { ...faults, faultModel: { ...faults.faultModel, nodes } };
}

/**
 * What a test with no faults of its own goes through: what a lock with a TTL has to withstand.
 *
 * @param hasConnections - Clients open their own.
 */
export function withstood(hasConnections: boolean): FaultClass[] {
  const ids = ['small', 'spikes-fifo', 'spikes-reordering', 'drift', 'long-delays', 'restart-delayed', 'pauses'];
  const classes = FAULT_CLASSES.filter(({ id }) => [...ids, 'silent-extension', 'even'].includes(id));
  const all = [...classes, ALL_AT_ONCE, ...FOR_TESTS].map((it) => ({ ...it, writes: false, heals: true }));
  return hasConnections ? [...CONNECTION_CLASSES, ...all] : all;
}

/** Of clients that open their own connections. */
const CONNECTION_CLASSES: readonly FaultClass[] = [
  {
    id: 'resets',
    title: 'resets',
    story: 'connections break, by themselves and all of a client together, while it is busy',
    faultModel: {},
    connections: { resetPpm: 20_000, burstPpm: 600_000, silentPpm: 0 },
  },
  {
    id: 'machines',
    title: 'machines go off',
    story: 'nodes crash and are back later: machines that are off are silent, others refuse',
    faultModel: { stretch: RESTART, crashes: 2, lossPpm: 20_000 },
    connections: { resetPpm: 0, burstPpm: 200_000, silentPpm: 500_000 },
  },
];

/** With less time than this, ms, a lock need not get by without a minority. */
const MINORITY_TTLS_MS: FaultModel['ttlsMs'] = [10_000];

function withoutMinority(minority: NonNullable<FaultClass['minority']>, title: string, story: string): FaultClass {
  return { id: `minority-${minority}`, title, story, faultModel: { ttlsMs: MINORITY_TTLS_MS }, minority };
}

/** Classes that the matrix of libraries does not have. */
const FOR_TESTS: readonly FaultClass[] = [
  {
    id: 'at-once',
    title: 'in one instant',
    // Half of an even number of nodes is no majority: two that ask at once show who takes it for one.
    story: 'nothing goes wrong, and all begin in one instant; four nodes',
    faultModel: { nodes: 4 },
    atOnce: true,
  },
  {
    id: 'dying',
    title: 'dying clients',
    story: 'processes die as they acquire, between any two of their commands',
    faultModel: { lossPpm: 10_000 },
    dying: true,
  },
  {
    id: 'extending',
    title: 'late extensions',
    story: 'every lock is extended; one message in ten is late, one in fifty lost, and later ones overtake',
    faultModel: { lossPpm: 20_000, spikePpm: 100_000 },
    link: 'reordering',
    extending: true,
  },
  {
    id: 'cut-off',
    title: 'holders cut off',
    story: 'who has a lock, and extends it, hears from no majority of the nodes for longer than a TTL',
    faultModel: {},
    extending: true,
    strikes: 'holders',
  },
  {
    id: 'paused-asking',
    title: 'paused while asking',
    story: 'who asks for a lock is paused for up to two TTLs before it has read the answers',
    faultModel: {},
    strikes: 'askers',
  },
  {
    id: 'no-spare',
    title: 'no vote to spare',
    story: 'as many nodes as a lock can do without never answer; one message in five is late, and later ones overtake',
    faultModel: { spikePpm: 200_000 },
    link: 'reordering',
    always: 'spikes',
    minority: 'dead',
  },
  withoutMinority('dead', 'minority dead', 'as many nodes as a lock can do without never answer'),
  withoutMinority('hung', 'minority hung', 'as many nodes as a lock can do without are paused'),
  withoutMinority('refusing', 'minority refuses', 'as many nodes as a lock can do without answer with errors'),
  withoutMinority('mute', 'minority mute', 'as many nodes as a lock can do without act, and their answers are lost'),
];

const ALL_AT_ONCE: FaultClass = {
  id: 'all-at-once',
  title: 'everything',
  story: 'drift, losses, late messages, partitions, pauses, and restarts that are delayed',
  faultModel: {
    stretch: { ...NO_STRETCH, 'clock-drift': 1, 'restart-delay': 1 },
    ratePpm: 5_000,
    crashes: 1,
    pauses: 1,
    partitions: 1,
    lossPpm: 20_000,
    spikePpm: 50_000,
  },
};

/**
 * What a lock goes through that promises to keep two acquisitions of one process apart.
 *
 * @param besides - What the second may be of.
 */
export function twoTasks(besides: readonly [string, ...string[]]): FaultClass {
  return {
    id: 'two-tasks',
    title: 'two tasks',
    story: 'nothing goes wrong, and each process makes two acquisitions at once, of one resource or of two',
    faultModel: {},
    besides,
    heals: true,
  };
}

/** What two libraries beside each other go through when nothing goes wrong. */
const WITHOUT_FAULTS: readonly FaultClass[] = [
  { id: 'calm', title: 'no faults', story: 'nothing goes wrong', faultModel: {} },
  {
    id: 'calm-extending',
    title: 'no faults, extending',
    story: 'nothing goes wrong, and every lock is extended',
    faultModel: {},
    extending: true,
  },
  {
    id: 'calm-late-release',
    title: 'no faults, released late',
    story: 'nothing goes wrong, and locks are released about when their keys expire',
    faultModel: {},
    lateRelease: true,
  },
];

/** The columns of the matrix, in its order. */
export const FAULT_CLASSES: readonly FaultClass[] = [
  {
    id: 'small',
    title: 'small faults',
    story: 'messages take up to 6 ms, one in fifty is lost, and a client is cut off from some nodes for a while',
    faultModel: { lossPpm: 20_000, partitions: 1 },
  },
  {
    id: 'spikes-fifo',
    title: 'spikes, FIFO',
    story: 'one message in ten takes up to 100 ms more, some up to 1.5 TTL; connections keep the order',
    faultModel: { spikePpm: 100_000 },
    link: 'fifo',
    always: 'spikes',
  },
  {
    id: 'spikes-reordering',
    title: 'spikes, reordered',
    story: 'the same, but later messages may overtake: reconnects, pools, proxies',
    faultModel: { spikePpm: 100_000 },
    link: 'reordering',
    always: 'spikes',
  },
  {
    id: 'drift',
    title: 'drift only',
    story: 'clocks of nodes are up to 0.5 % fast and those of clients as slow; nothing else',
    faultModel: { stretch: RATE, ratePpm: 5_000 },
    link: 'fifo',
  },
  {
    id: 'long-delays',
    title: 'long delays',
    story: 'three messages in ten are late, some by more than a TTL; connections keep the order',
    faultModel: { spikePpm: 300_000 },
    link: 'fifo',
    always: 'spikes',
  },
  {
    id: 'restart-immediate',
    title: 'restart at once',
    story: 'nodes that voted crash and are back at once, empty',
    faultModel: { stretch: RESTART, restartDelayUs: 0, crashes: 2 },
  },
  {
    id: 'restart-delayed',
    title: 'restart delayed',
    story: 'the control: the same, but they stay away for as long as a claim lasts',
    faultModel: { stretch: RESTART, crashes: 2 },
  },
  {
    id: 'wall-steps',
    title: 'wall-clock steps',
    story: "somebody sets a client's wall clock, by up to two TTLs either way",
    faultModel: { wallSteps: 2 },
    always: 'wallSteps',
  },
  {
    id: 'pauses',
    title: 'pauses',
    story: 'clients and nodes are paused for up to two TTLs; clients write while they hold',
    faultModel: { pauses: 2 },
    always: 'pauses',
    writes: true,
  },
  {
    id: 'silent-extension',
    title: 'silent nodes, extending',
    story: 'locks extend themselves, while clients are cut off from some nodes',
    faultModel: { partitions: 2 },
    extendsItself: true,
    always: 'partitions',
  },
  {
    id: 'even',
    title: 'four nodes',
    story: 'an even number of nodes, with losses and partitions',
    faultModel: { nodes: 4, lossPpm: 50_000, partitions: 2 },
  },
  {
    id: 'one-dead',
    title: 'one node dead',
    story: 'one node never answers',
    faultModel: {},
    deadNode: true,
  },
];

/** Classes of faults for two libraries beside each other: none first, then what one of them alone may well tolerate. */
const WITH_FAULTS = ['small', 'spikes-reordering', 'drift', 'long-delays', 'restart-delayed', 'one-dead'];

/** What two libraries beside each other go through, in this order. */
export const PAIR_CLASSES: readonly FaultClass[] = [
  ...WITHOUT_FAULTS,
  ...FAULT_CLASSES.filter(({ id }) => WITH_FAULTS.includes(id)),
];
