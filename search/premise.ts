import { extendsItself, type Settings } from '../core/index.js';
import { deadlineOf, type Habits, type Policy, policyWith } from '../deviations/index.js';
import type { ClockPlan, Distance, FsyncPlan } from '../scenarios/index.js';
import { type ClientView, type ClusterSetup, nodeName, type Setup, type Stream } from '../sim/index.js';
import { type Bounds, boundsOf } from './bounds.js';
import { distancesOf, drawPatience, type Patience } from './patience.js';
import { countsForTokens } from './spare-counters.js';
import type { Tactics } from './tactics.js';
import type { Strain, Weather } from './weather.js';

/** What one run of a search is about: drawn once, before the run. */
export interface Premise {
  readonly setup: Setup;
  readonly tactics: Tactics;
  readonly ttlMs: number;
  /** The assumption that is strained, if any, and how near to its bound (1 is at the bound). */
  readonly strain: Strain | null;
  readonly nearness: number;
  readonly bounds: Bounds;
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
  readonly patience: Patience | null;
}

const PERCENT = 10_000;
const HANDOVERS_PERCENT = 12;

/** Draws the premise of a run. */
export function drawPremise(weather: Weather, tactics: Tactics, draw: Stream): Premise {
  const usual = drawUsual(weather, tactics, draw);
  const patience = drawPatience(weather, draw);
  if (patience !== null) return patient(weather, usual, patience);
  return tactics.structured && draw.chance(HANDOVERS_PERCENT * PERCENT) ? busy(weather, usual, draw) : usual;
}

/** The same where locks are handed on quickly, between clients that are nearest to different nodes more often than not. */
function busy(weather: Weather, usual: Premise, draw: Stream): Premise {
  const { cluster, policy } = usual.setup;
  const distances = weather.distances && draw.chance(60 * PERCENT) ? drawDistances(weather, draw) : cluster.distances;
  const setup = {
    ...usual.setup,
    cluster: { ...cluster, distances },
    policy: policyWith({ settings: { tries: 1 } }, policy),
  };
  return { ...usual, setup, handovers: true };
}

/** The same where clients keep trying. Its locks are short, so that the run is over soon. */
function patient(weather: Weather, usual: Premise, patience: Patience): Premise {
  const ttlMs = Math.min(...weather.ttlsMs);
  const { standoff } = patience;
  const { cluster, policy } = usual.setup;
  return {
    ...usual,
    ttlMs,
    bounds: boundsOf(policy, ttlMs),
    setup: {
      ...usual.setup,
      cluster: { ...cluster, distances: standoff ? distancesOf(weather, usual.leastDelayUs) : cluster.distances },
      policy: policyWith({ settings: { tries: null } }, policy),
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

function drawUsual(weather: Weather, tactics: Tactics, draw: Stream): Premise {
  const has = (percent: number): boolean => !tactics.swarm || draw.chance(percent * PERCENT);
  const ttlMs = draw.pick(weather.ttlsMs);
  const strain = drawStrain(weather, draw);
  const nearness = drawNearness(draw);
  const sharp = tactics.biased && draw.chance(50 * PERCENT);
  const policy = drawPolicy(weather, strain, draw);
  const bounds = boundsOf(policy, ttlMs);
  // Who writes every second has no disk that keeps all.
  const durable =
    weather.durable && weather.persistence !== 'everysec' && strain !== 'restart' && strain !== 'forget' && has(25);
  const failovers = weather.failovers > 0 && has(15);
  const leastDelayUs = draw.pick(sharp ? [0, 0, 0, 1] : [0, 0, 50, 500, 1_000]);
  const disk = drawDisk(weather, durable, strain, draw);
  const distances = weather.distances && !sharp && has(20) ? drawDistances(weather, draw) : [];
  const link = draw.chance(50 * PERCENT) ? 'fifo' : 'reordering';
  const clocks = drawClocks(weather, sharp, drawRates(weather, strain, nearness, bounds, draw), draw);
  const suspends = strain !== 'late' && weather.suspends > 0 && has(20);
  const wallSteps = weather.wallSteps > 0 && has(20);
  // Where nobody suspends or sets them, all clocks of a client are as good as each other.
  const mixed = weather.ownTiming && !suspends && !wallSteps && policy.habits.clock === 'boot' && has(10);
  return {
    setup: {
      cluster: clusterOf(weather, disk, {
        delayUs: leastDelayUs,
        distances,
        link,
        // A replica that is up to date is as good as a disk.
        replicaLagUs: failovers ? weather.replicaLagUs : null,
        scripts: weather.byHash && has(15) ? 'by-hash' : undefined,
        clocks,
      }),
      policy,
      clients: Array.from({ length: weather.clients }, (_, i) => `c${i + 1}`),
      views: weather.namesTwice ? namedTwice(weather) : mixed ? drawTimings(weather, draw) : undefined,
      resource: weather.resource,
      untilUs: 3 * ttlMs * 1000,
    },
    tactics,
    ttlMs,
    strain,
    nearness,
    bounds,
    sharp,
    durable,
    guardUs: strain === 'late' ? Math.min(draw.pick([100_000, 250_000, 500_000]), ttlMs * 500) : null,
    leastDelayUs,
    mostDelayUs: leastDelayUs + draw.pick(sharp ? [0, 0, 0, 5_000] : [0, 100, 1_000, 5_000]),
    losses: has(50),
    copies: has(30),
    resends: weather.duplicatePpm > 0 && has(20),
    spikes: has(30),
    // What a write allows for is one pause of its client, which is planned apart.
    pauses: strain !== 'late' && has(30),
    partitions: has(50),
    deadClients: strain !== 'late' && has(20),
    failovers,
    refusals: weather.refusals > 0 && has(15),
    suspends,
    wallSteps,
    reorders: weather.nodes > 1 && has(15),
    handovers: false,
    patience: null,
  };
}

type Disk = Pick<ClusterSetup, 'persistence' | 'fsync' | 'dumps'>;

/** What is drawn of a cluster beside its disks. */
type Rest = Pick<ClusterSetup, 'delayUs' | 'distances' | 'link' | 'replicaLagUs' | 'scripts' | 'clocks'>;

/** With every field in every run, so that all of them have one shape. */
function clusterOf(weather: Weather, { persistence, fsync, dumps }: Disk, rest: Rest): ClusterSetup {
  return {
    nodes: weather.nodes,
    delayUs: rest.delayUs,
    distances: rest.distances,
    link: rest.link,
    expiry: weather.expiry,
    resolutionUs: 1000,
    persistence,
    fsync,
    dumps,
    replicaLagUs: rest.replicaLagUs,
    answers: weather.answersEarly && persistence === 'always' ? 'executed' : undefined,
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
function drawDisk(weather: Weather, durable: boolean, strain: Strain | null, draw: Stream): Disk {
  if (durable && draw.chance(50 * PERCENT)) return { persistence: 'always' };
  // Nodes with dumps come back with what they had some time ago, which is no matter to their keys but to their counters.
  const old = weather.counters && countsForTokens(weather.policy) && !durable && draw.chance(30 * PERCENT);
  if (weather.persistence === 'rdb' || old) return { persistence: 'rdb', dumps: drawDumps(draw) };
  const forgets =
    (strain === 'restart' || strain === 'forget') && forgetsUnawares(weather) && draw.chance(30 * PERCENT);
  const asked = weather.persistence === 'everysec';
  if (!asked && !durable && !forgets) return { persistence: weather.persistence };
  const everyUs = asked ? EVERY_SECOND_US : draw.pick(FSYNC_EVERY_US);
  const slowUs = asked || forgetsUnawares(weather) ? draw.below(everyUs / 2) : 0;
  // A process that dies loses nothing unless an fsync takes its time.
  const takesUs = asked || forgetsUnawares(weather) ? draw.pick([weather.powerLosses > 0 ? 0 : slowUs, slowUs]) : 0;
  return { persistence: 'everysec', fsync: { firstUs: draw.below(everyUs), everyUs, takesUs } };
}

const DUMP_EVERY_US = [60_000_000, 1_000_000, 20_000] as const;

function drawDumps(draw: Stream): FsyncPlan {
  const everyUs = draw.pick(DUMP_EVERY_US);
  return { firstUs: draw.below(everyUs), everyUs, takesUs: draw.pick([0, draw.below(2 * everyUs)]) };
}

/** Whether nodes may lose the last of what they did and keep the rest. */
export function forgetsUnawares({ persistence, disks }: Weather): boolean {
  return disks && persistence === 'none';
}

/** Clients that read different clocks, and are told of their validity in different ways. */
function drawTimings({ clients, policy }: Weather, draw: Stream): ClientView[] {
  return Array.from({ length: clients }, () => ({
    timing: {
      clock: draw.pick<Habits['clock']>(['boot', 'monotonic', 'wall']),
      deadline: draw.pick([deadlineOf(policy, 'absolute'), deadlineOf(policy, 'relative')]),
    },
  }));
}

/** What clients know of the nodes, where the first has one of them in its list twice, and another not at all. */
function namedTwice({ nodes, clients }: Weather): ClientView[] {
  const list = Array.from({ length: nodes }, (_, place) => nodeName(place === 1 ? 0 : place));
  return Array.from({ length: clients }, (_, client) => (client === 0 ? { nodes: list } : {}));
}

/** Most runs go to the very edge: to the bound itself, or within one per cent of it. */
function drawNearness(draw: Stream): number {
  const kind = draw.below(100);
  if (kind < 45) return 1;
  return kind < 85 ? 1 - draw.below(PERCENT) / 1_000_000 : draw.below(1_000_000) / 1_000_000;
}

/** Few attempts, so that a run is short; and where nodes forget, votes beyond the quorum that let them. */
function drawPolicy(weather: Weather, strain: Strain | null, draw: Stream): Policy {
  const tries =
    weather.policy.settings.tries === null ? null : Math.min(weather.policy.settings.tries, draw.between(1, 3));
  if (strain !== 'forget') return policyWith({ settings: { tries } }, weather.policy);
  const votesWanted = draw.pick<Settings['votesWanted']>(['all', 'quorum', weather.nodes - 1]);
  return policyWith({ settings: { tries, votesWanted } }, weather.policy);
}

function drawStrain(weather: Weather, draw: Stream): Strain | null {
  const { stretch } = weather;
  const possible = (Object.keys(stretch) as Strain[]).filter((strain) => stretch[strain] > 0);
  const [first, ...rest] = possible;
  if (first === undefined || draw.chance(5 * PERCENT)) return null;
  return draw.pick([first, ...rest]);
}

const FARTHEST_US = 20_000;

/** Some nodes are far from everybody, or one client is. */
function drawDistances(weather: Weather, draw: Stream): Distance[] {
  const far = draw.subset(weather.nodes, draw.between(1, weather.nodes));
  const only = draw.chance(50 * PERCENT) ? draw.between(1, weather.clients) : null;
  const distances: Distance[] = [];
  for (let client = 1; client <= weather.clients; client++) {
    if (only !== null && client !== only) continue;
    for (const node of far) {
      distances.push({ client: `c${client}`, node: `n${node}`, delayUs: draw.below(FARTHEST_US) });
    }
  }
  return distances;
}

/** Offsets never matter, except for when within its millisecond a node is asked, and are always there. */
function drawClocks(
  weather: Weather,
  sharp: boolean,
  [nodeRate, clientRate]: readonly [number, number],
  draw: Stream,
): ClockPlan[] {
  const clocks: ClockPlan[] = [];
  for (let node = 0; node < weather.nodes; node++) {
    clocks.push({
      process: `n${node}`,
      offsetUs: 1000 * draw.below(weather.longestOffsetMs) + (sharp ? 999 : draw.below(1000)),
      ratePpm: nodeRate,
    });
  }
  for (let client = 1; client <= weather.clients; client++) {
    clocks.push({
      process: `c${client}`,
      offsetUs: draw.below(1000 * weather.longestOffsetMs),
      ratePpm: 0 - clientRate,
    });
  }
  return clocks;
}

/** Rate errors in the harmful direction, where they are the strain: fast nodes, slow clients, or both. */
function drawRates(
  weather: Weather,
  strain: Strain | null,
  nearness: number,
  bounds: Bounds,
  draw: Stream,
): [number, number] {
  if (strain !== 'rate') return [0, 0];
  const factor = weather.stretch.rate * nearness;
  if (weather.ratePpm !== null) return [weather.ratePpm, weather.ratePpm];
  const to = factor > 1 ? Math.ceil : Math.floor;
  const both = to(bounds.bothRatesPpm * factor);
  return draw.pick<[number, number]>([
    [both, both],
    [both, both],
    [to(bounds.nodeRatePpm * factor), 0],
    [0, to(bounds.clientRatePpm * factor)],
  ]);
}
