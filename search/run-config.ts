import { extendsItself, type Settings } from '../core/index.js';
import { deadlineOf, type Habits, type Policy } from '../deviations/index.js';
import type { ClockPlan, Distance, FsyncPlan } from '../scenarios/index.js';
import { type ClientView, type ClusterSetup, nodeName, type RandomStream, type Setup } from '../sim/index.js';
import { type AssumptionBounds, assumptionBoundsOf } from './bounds.js';
import type { BoundId, FaultModel } from './fault-model.js';
import { distancesOf, drawPatience, type LivenessConfig } from './liveness-config.js';
import { policyVaried } from './policies.js';
import { countsForTokens } from './spare-counters.js';
import type { Tactics } from './tactics.js';

/** What one run of a search is about: drawn once, before the run. */
export interface RunConfig {
  readonly setup: Setup;
  readonly tactics: Tactics;
  readonly ttlMs: number;
  /** The assumption that is strained, if any, and how near to its bound (1 is at the bound). */
  readonly stressed: BoundId | null;
  readonly boundFraction: number;
  readonly bounds: AssumptionBounds;
  /** Node clocks are about to tick when clients call, so that no key outlives its TTL by more than 1 µs. */
  readonly sharp: boolean;
  /** Nodes keep what they acknowledged. */
  readonly durable: boolean;
  /** How long after its check a write may arrive, where that is strained; `null` where nothing is written. */
  readonly guardUs: number | null;
  /** Usual delays lie between these, µs. */
  readonly leastDelayUs: number;
  readonly mostDelayUs: number;
  /** Which kinds of trouble this run has (swarm: a random subset, so that no kind drowns another). */
  readonly losses: boolean;
  readonly copies: boolean;
  /** Connections break, and libraries send again what was not answered. */
  readonly resends: boolean;
  readonly spikes: boolean;
  readonly pauses: boolean;
  readonly partitions: boolean;
  readonly deadClients: boolean;
  readonly failovers: boolean;
  readonly refusals: boolean;
  readonly suspends: boolean;
  readonly wallSteps: boolean;
  /** Clients are told of the same nodes in another order. */
  readonly reorders: boolean;
  /** Locks are held for milliseconds and asked for again at once, so that what is late meets later holders. */
  readonly handovers: boolean;
  /** What is special about a run in which clients keep trying; `null` in most. */
  readonly patience: LivenessConfig | null;
}

const PERCENT = 10_000;
const HANDOVERS_PERCENT = 12;

/** Draws the run config of a run. */
export function drawPremise(faultModel: FaultModel, tactics: Tactics, draw: RandomStream): RunConfig {
  const usual = drawUsual(faultModel, tactics, draw);
  const patience = drawPatience(faultModel, draw);
  if (patience !== null) return patient(faultModel, usual, patience);
  return tactics.structured && draw.chance(HANDOVERS_PERCENT * PERCENT) ? busy(faultModel, usual, draw) : usual;
}

/** The same where locks are handed on quickly, between clients that are nearest to different nodes more often than not. */
function busy(faultModel: FaultModel, usual: RunConfig, draw: RandomStream): RunConfig {
  const { cluster, policy } = usual.setup;
  const distances =
    faultModel.distances && draw.chance(60 * PERCENT) ? drawDistances(faultModel, draw) : cluster.distances;
  const setup = {
    ...usual.setup,
    cluster: { ...cluster, distances },
    policy: policyVaried(policy, { tries: 1 }),
  };
  return { ...usual, setup, handovers: true };
}

/** The same where clients keep trying. Its locks are short, so that the run is over soon. */
function patient(faultModel: FaultModel, usual: RunConfig, patience: LivenessConfig): RunConfig {
  const ttlMs = Math.min(...faultModel.ttlsMs);
  const { standoff } = patience;
  const { cluster, policy } = usual.setup;
  return {
    ...usual,
    ttlMs,
    bounds: assumptionBoundsOf(policy, ttlMs),
    setup: {
      ...usual.setup,
      cluster: { ...cluster, distances: standoff ? distancesOf(faultModel, usual.leastDelayUs) : cluster.distances },
      policy: policyVaried(policy, { tries: null }),
      // A lock that extends itself may be held for eleven TTLs.
      untilUs: (extendsItself(policy.settings) ? 14 : 3) * 1000 * ttlMs,
    },
    mostDelayUs: standoff ? usual.leastDelayUs : usual.mostDelayUs,
    partitions: usual.partitions && !standoff,
    pauses: usual.pauses && !standoff,
    reorders: usual.reorders && !standoff,
    deadClients: usual.deadClients && !standoff,
    patience,
  };
}

function drawUsual(faultModel: FaultModel, tactics: Tactics, draw: RandomStream): RunConfig {
  const has = (percent: number): boolean => !tactics.swarm || draw.chance(percent * PERCENT);
  const ttlMs = draw.pick(faultModel.ttlsMs);
  const stressed = drawStressed(faultModel, draw);
  const boundFraction = drawNearness(draw);
  const sharp = tactics.biased && draw.chance(50 * PERCENT);
  const policy = drawPolicy(faultModel, stressed, draw);
  const bounds = assumptionBoundsOf(policy, ttlMs);
  // Who writes every second has no disk that keeps all.
  const durable =
    faultModel.durable &&
    faultModel.persistence !== 'everysec' &&
    stressed !== 'restart-delay' &&
    stressed !== 'data-loss' &&
    has(25);
  const failovers = faultModel.failovers > 0 && has(15);
  const leastDelayUs = draw.pick(sharp ? [0, 0, 0, 1] : [0, 0, 50, 500, 1_000]);
  const disk = drawDisk(faultModel, durable, stressed, draw);
  const distances = faultModel.distances && !sharp && has(20) ? drawDistances(faultModel, draw) : [];
  const drawnLink = draw.chance(50 * PERCENT) ? 'fifo' : 'reordering';
  const link = faultModel.link ?? drawnLink;
  const clocks = drawClocks(faultModel, sharp, drawRates(faultModel, stressed, boundFraction, bounds, draw), draw);
  const suspends = stressed !== 'write-delay' && faultModel.suspends > 0 && has(20);
  const wallSteps = faultModel.wallSteps > 0 && has(20);
  // Where nobody suspends or sets them, all clocks of a client are as good as each other.
  const mixed = faultModel.ownTiming && !suspends && !wallSteps && policy.habits.clock === 'boot' && has(10);
  return {
    setup: {
      cluster: clusterOf(faultModel, disk, {
        delayUs: leastDelayUs,
        distances,
        link,
        // A replica that is up to date is as good as a disk.
        replicaLagUs: failovers ? faultModel.replicaLagUs : null,
        scripts: faultModel.byHash && has(15) ? 'by-hash' : undefined,
        clocks,
      }),
      policy,
      clients: Array.from({ length: faultModel.clients }, (_, i) => `c${i + 1}`),
      views: faultModel.namesTwice ? namedTwice(faultModel) : mixed ? drawTimings(faultModel, draw) : undefined,
      resource: faultModel.resource,
      untilUs: 3 * ttlMs * 1000,
    },
    tactics,
    ttlMs,
    stressed,
    boundFraction,
    bounds,
    sharp,
    durable,
    guardUs: stressed === 'write-delay' ? Math.min(draw.pick([100_000, 250_000, 500_000]), ttlMs * 500) : null,
    leastDelayUs,
    mostDelayUs: leastDelayUs + draw.pick(sharp ? [0, 0, 0, 5_000] : [0, 100, 1_000, 5_000]),
    losses: has(50),
    copies: has(30),
    resends: faultModel.duplicatePpm > 0 && has(20),
    spikes: has(30),
    // What a write allows for is one pause of its client, which is planned apart.
    pauses: stressed !== 'write-delay' && has(30),
    partitions: has(50),
    deadClients: stressed !== 'write-delay' && has(20),
    failovers,
    refusals: faultModel.refusals > 0 && has(15),
    suspends,
    wallSteps,
    reorders: faultModel.nodes > 1 && has(15),
    handovers: false,
    patience: null,
  };
}

type Disk = Pick<ClusterSetup, 'persistence' | 'fsync' | 'dumps'>;

/** What is drawn of a cluster beside its disks. */
type Rest = Pick<ClusterSetup, 'delayUs' | 'distances' | 'link' | 'replicaLagUs' | 'scripts' | 'clocks'>;

/** With every field in every run, so that all of them have one shape. */
function clusterOf(faultModel: FaultModel, { persistence, fsync, dumps }: Disk, rest: Rest): ClusterSetup {
  return {
    nodes: faultModel.nodes,
    delayUs: rest.delayUs,
    distances: rest.distances,
    link: rest.link,
    expiry: faultModel.expiry,
    resolutionUs: 1000,
    persistence,
    fsync,
    dumps,
    replicaLagUs: rest.replicaLagUs,
    answers: faultModel.answersEarly && persistence === 'always' ? 'executed' : undefined,
    expiryAtLoad: undefined,
    scripts: rest.scripts,
    clocks: rest.clocks,
  };
}

/** How long Redis lets pass between two fsyncs, and a disk that is asked far more often, µs. */
const EVERY_SECOND_US = 1_000_000;
const FSYNC_EVERY_US = [EVERY_SECOND_US, 20_000] as const;

/**
 * What a crash leaves of a node. Nodes that keep what they acknowledged write it before they answer, or every second, in
 * windows that take their time: then power loss costs the last of it, and a dying process what it had not handed over.
 */
function drawDisk(faultModel: FaultModel, durable: boolean, stressed: BoundId | null, draw: RandomStream): Disk {
  if (durable && draw.chance(50 * PERCENT)) return { persistence: 'always' };
  // Nodes with dumps come back with what they had some time ago, which is no matter to their keys but to their counters.
  const old = faultModel.counters && countsForTokens(faultModel.policy) && !durable && draw.chance(30 * PERCENT);
  if (faultModel.persistence === 'rdb' || old) return { persistence: 'rdb', dumps: drawDumps(draw) };
  const forgets =
    (stressed === 'restart-delay' || stressed === 'data-loss') &&
    forgetsUnawares(faultModel) &&
    draw.chance(30 * PERCENT);
  const asked = faultModel.persistence === 'everysec';
  if (!asked && !durable && !forgets) return { persistence: faultModel.persistence };
  const everyUs = asked ? EVERY_SECOND_US : draw.pick(FSYNC_EVERY_US);
  const slowUs = asked || forgetsUnawares(faultModel) ? draw.below(everyUs / 2) : 0;
  // A process that dies loses nothing unless an fsync takes its time.
  const takesUs =
    asked || forgetsUnawares(faultModel) ? draw.pick([faultModel.powerLosses > 0 ? 0 : slowUs, slowUs]) : 0;
  return { persistence: 'everysec', fsync: { firstUs: draw.below(everyUs), everyUs, takesUs } };
}

const DUMP_EVERY_US = [60_000_000, 1_000_000, 20_000] as const;

function drawDumps(draw: RandomStream): FsyncPlan {
  const everyUs = draw.pick(DUMP_EVERY_US);
  return { firstUs: draw.below(everyUs), everyUs, takesUs: draw.pick([0, draw.below(2 * everyUs)]) };
}

/** Whether nodes may lose the last of what they did and keep the rest. */
export function forgetsUnawares({ persistence, disks }: FaultModel): boolean {
  return disks && persistence === 'none';
}

/** Clients that read different clocks, and are told of their validity in different ways. */
function drawTimings({ clients, policy }: FaultModel, draw: RandomStream): ClientView[] {
  return Array.from({ length: clients }, () => ({
    timing: {
      clock: draw.pick<Habits['clock']>(['boot', 'monotonic', 'wall']),
      deadline: draw.pick([deadlineOf(policy, 'absolute'), deadlineOf(policy, 'relative')]),
    },
  }));
}

/** What clients know of the nodes, where the first has one of them in its list twice, and another not at all. */
function namedTwice({ nodes, clients }: FaultModel): ClientView[] {
  const list = Array.from({ length: nodes }, (_, place) => nodeName(place === 1 ? 0 : place));
  return Array.from({ length: clients }, (_, client) => (client === 0 ? { nodes: list } : {}));
}

/** Most runs go to the very edge: to the bound itself, or within one per cent of it. */
function drawNearness(draw: RandomStream): number {
  const kind = draw.below(100);
  if (kind < 45) return 1;
  return kind < 85 ? 1 - draw.below(PERCENT) / 1_000_000 : draw.below(1_000_000) / 1_000_000;
}

/** Few attempts, so that a run is short; and where nodes forget, votes beyond the quorum that let them. */
function drawPolicy(faultModel: FaultModel, stressed: BoundId | null, draw: RandomStream): Policy {
  const tries =
    faultModel.policy.settings.tries === null ? null : Math.min(faultModel.policy.settings.tries, draw.between(1, 3));
  if (stressed !== 'data-loss') return policyVaried(faultModel.policy, { tries });
  const votesWanted = draw.pick<Settings['votesWanted']>(['all', 'quorum', faultModel.nodes - 1]);
  return policyVaried(faultModel.policy, { tries, votesWanted });
}

function drawStressed(faultModel: FaultModel, draw: RandomStream): BoundId | null {
  const { stretch } = faultModel;
  const possible = (Object.keys(stretch) as BoundId[]).filter((stressed) => stretch[stressed] > 0);
  const [first, ...rest] = possible;
  if (first === undefined || draw.chance(5 * PERCENT)) return null;
  return draw.pick([first, ...rest]);
}

const FARTHEST_US = 20_000;

/** Some nodes are far from everybody, or one client is. */
function drawDistances(faultModel: FaultModel, draw: RandomStream): Distance[] {
  const far = draw.subset(faultModel.nodes, draw.between(1, faultModel.nodes));
  const only = draw.chance(50 * PERCENT) ? draw.between(1, faultModel.clients) : null;
  const distances: Distance[] = [];
  for (let client = 1; client <= faultModel.clients; client++) {
    if (only !== null && client !== only) continue;
    for (const node of far) {
      distances.push({ client: `c${client}`, node: `n${node}`, delayUs: draw.below(FARTHEST_US) });
    }
  }
  return distances;
}

/** Offsets never matter, except for when within its millisecond a node is asked, and are always there. */
function drawClocks(
  faultModel: FaultModel,
  sharp: boolean,
  [nodeRate, clientRate]: readonly [number, number],
  draw: RandomStream,
): ClockPlan[] {
  const clocks: ClockPlan[] = [];
  for (let node = 0; node < faultModel.nodes; node++) {
    clocks.push({
      process: `n${node}`,
      offsetUs: 1000 * draw.below(faultModel.longestOffsetMs) + (sharp ? 999 : draw.below(1000)),
      ratePpm: nodeRate,
    });
  }
  for (let client = 1; client <= faultModel.clients; client++) {
    clocks.push({
      process: `c${client}`,
      offsetUs: draw.below(1000 * faultModel.longestOffsetMs),
      ratePpm: 0 - clientRate,
    });
  }
  return clocks;
}

/** Rate errors in the harmful direction, where they stress the assumption: fast nodes, slow clients, or both. */
function drawRates(
  faultModel: FaultModel,
  stressed: BoundId | null,
  boundFraction: number,
  bounds: AssumptionBounds,
  draw: RandomStream,
): [number, number] {
  if (stressed !== 'clock-drift') return [0, 0];
  const factor = faultModel.stretch['clock-drift'] * boundFraction;
  if (faultModel.ratePpm !== null) return [faultModel.ratePpm, faultModel.ratePpm];
  const to = factor > 1 ? Math.ceil : Math.floor;
  const both = to(bounds.bothRatesPpm * factor);
  return draw.pick<[number, number]>([
    [both, both],
    [both, both],
    [to(bounds.nodeRatePpm * factor), 0],
    [0, to(bounds.clientRatePpm * factor)],
  ]);
}
