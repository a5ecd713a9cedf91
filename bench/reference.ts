import { members, size } from '../core/index.js';
import { policyWith } from '../deviations/index.js';
import type { Counts } from '../properties/coverage.js';
import { type Cluster, type Fault, type LockPlan, plainCluster } from '../scenarios/index.js';
import { isInClaim } from '../search/random-adversary.js';
import {
  type Adversary,
  type DecisionPoint,
  type Direction,
  type FateSlot,
  type Message,
  nodeName,
  type RandomStream,
  type RandomStreams,
  type Setup,
  type SimLock,
  type WorldView,
} from '../sim/index.js';

const NODES = 5;
/** The nodes in order, by the one that comes first. */
const NODE_LISTS = Array.from({ length: NODES }, (_, first) =>
  Array.from({ length: NODES }, (_, place) => nodeName((first + place) % NODES)),
);
const CLIENTS = ['c1', 'c2', 'c3'] as const;
const TTL_MS = 1_000;
/** A node that is back without its keys stays away for longer than any claim lasts, µs. */
const LONG_US = 1_010_000;
/** Rate errors up to this on both sides, and jumps and stops up to those, are within the drift allowance together. */
const RATE_PPM = 500;
const JUMP_US = 4_000;
const STOP_US = 3_000;
/** The faults of a history strike while its locks are asked for. */
const SPAN_US = 200_000;
/** Locks of each client in a history. */
const LOCKS = 2;

const CLUSTER: Cluster = plainCluster(NODES, {
  delayUs: 500,
  link: 'reordering',
  // A replica that takes over has everything.
  replicaLagUs: 0,
  clocks: [
    { process: 'n0', offsetUs: 17, ratePpm: 200 },
    { process: 'n3', offsetUs: 1_000_003, ratePpm: -300 },
    { process: 'c2', offsetUs: 5_000, ratePpm: 100 },
  ],
});

const SETUP: Setup = {
  cluster: CLUSTER,
  policy: policyWith({ settings: { tries: 3, retryDelayUs: 60_000, retryJitterUs: 30_000 } }),
  clients: CLIENTS,
  resource: 'none',
  untilUs: 5_000_000,
};

const RESOURCES = ['a'];
const OPERATIONS = ['acquire', 'extend', 'release'] as const;
const WRITES = [{ checkAfterUs: 100, guardUs: 1_000, sendAfterUs: 200, delayUs: 300 }];
const NOTHING: readonly never[] = [];

/** How nodes go down, and for how long. */
type GoesDown = (node: string, atUs: number, draw: RandomStream) => Fault;

/** One of the deployments that histories take place in, in turns: what they differ in cannot be had at once. */
interface Deployment {
  readonly setup: Setup;
  readonly goesDown: GoesDown;
  /** Claims of more votes than a quorum, of which a node may forget one. */
  readonly forgets: boolean;
}

const MEMORY: GoesDown = (node, atUs, draw) => ({
  kind: 'crash',
  node,
  atUs,
  restartAfterUs: LONG_US + draw.below(200_000),
  restartBy: 'node-clock',
});
const FSYNC_FIRST: GoesDown = (node, atUs, draw) => ({
  kind: 'crash',
  node,
  atUs,
  restartAfterUs: draw.below(50_000),
  power: true,
});
const FSYNC_LATER: GoesDown = (node, atUs, draw) =>
  draw.chance(500_000)
    ? { kind: 'crash', node, atUs, restartAfterUs: LONG_US, power: true }
    : { kind: 'crash', node, atUs, restartAfterUs: draw.below(50_000), clean: true };

/** The deployments that histories of the reference workload take turns in. */
export const DEPLOYMENTS: readonly [Deployment, ...Deployment[]] = [
  {
    // Nodes in memory, one of them far from everybody and one from a single client.
    setup: {
      ...SETUP,
      cluster: {
        ...CLUSTER,
        distances: [
          ...SETUP.clients.map((client) => ({ client, node: 'n4', delayUs: 4_000 })),
          { client: 'c3', node: 'n1', delayUs: 9_000 },
        ],
      },
    },
    goesDown: MEMORY,
    forgets: false,
  },
  {
    // Nodes that write before they answer, over connections that keep the order; scripts go by their hash.
    setup: { ...SETUP, cluster: { ...CLUSTER, persistence: 'always', link: 'fifo', scripts: 'by-hash' } },
    goesDown: FSYNC_FIRST,
    forgets: false,
  },
  {
    // Nodes that write every now and then; clients that read clocks of their own.
    setup: {
      ...SETUP,
      cluster: {
        ...CLUSTER,
        persistence: 'everysec',
        fsync: { firstUs: 3_000, everyUs: 20_000, takesUs: 5_000 },
      },
      views: [
        { timing: { clock: 'wall' } },
        { timing: { clock: 'monotonic', deadline: 'deadline-counted-after-us:0' } },
        {},
      ],
    },
    goesDown: FSYNC_LATER,
    forgets: false,
  },
  {
    // Clients that want every vote, so that there are some to spare.
    setup: { ...SETUP, policy: policyWith({ settings: { votesWanted: 'all' } }, SETUP.policy) },
    goesDown: MEMORY,
    forgets: true,
  },
];

/** The deployment of a history. */
export function deploymentOf(run: number): Deployment {
  return DEPLOYMENTS[run % DEPLOYMENTS.length] ?? DEPLOYMENTS[0];
}

/**
 * The reference workload of the simulator's benchmark: short holds under contention, an extension now and then, writes,
 * messages that are lost, copied, sent again and held up, and a fault of every kind in each history, all of it within
 * what the lock assumes (what forgets and what goes down for how long differs by deployment).
 */
export class ReferenceWorkload implements Adversary {
  private readonly draw: RandomStream;
  private readonly counts: Counts;
  private readonly left = [LOCKS, LOCKS, LOCKS];
  private readonly faults: Fault[];
  /** How many faults it has from the start. */
  readonly planned: number;
  /** How many of them it has given away. */
  private given = 0;
  private forgetsLeft: number;

  /** @param most - Faults of a history, where fewer than one of every kind are wanted. */
  constructor(streams: RandomStreams, run: number, counts: Counts, most: number = Number.POSITIVE_INFINITY) {
    this.draw = streams.stream(run, 0);
    this.counts = counts;
    const { goesDown, forgets } = deploymentOf(run);
    this.forgetsLeft = forgets ? 1 : 0;
    const faults = this.drawFaults(goesDown);
    const kept = most < faults.length ? this.draw.subset(faults.length, most) : null;
    this.faults = kept === null ? faults : kept.map((i) => faults[i] as Fault);
    this.planned = this.faults.length;
  }

  /** c1 writes, and is not frozen nor dies: its writes are on time. c3 has a wall clock that nobody reads. */
  private drawFaults(goesDown: GoesDown): Fault[] {
    const { draw } = this;
    const node = (): string => nodeName(draw.below(NODES));
    const idle = (): string => CLIENTS[draw.between(1, 2)] ?? 'c3';
    const at = (): number => draw.below(SPAN_US);
    const first = draw.between(1, NODES - 1);
    return [
      goesDown(node(), at(), draw),
      { kind: 'failover', node: node(), atUs: at() },
      {
        kind: 'reconfigure',
        client: this.drawClient(),
        nodes: NODE_LISTS[first] as readonly string[],
        atUs: at(),
      },
      { kind: 'error-replies', node: node(), operations: OPERATIONS, atUs: at(), forUs: 20_000 },
      this.clientCrash(idle(), SPAN_US / 2 + at()),
      { kind: 'suspend', process: idle(), atUs: at(), forUs: draw.below(STOP_US) },
      { kind: 'pause', process: draw.chance(500_000) ? node() : idle(), atUs: at(), forUs: draw.below(30_000) },
      { kind: 'clock-step', process: node(), atUs: at(), byUs: draw.between(-JUMP_US, JUMP_US) },
      { kind: 'clock-step', process: 'c3', atUs: at(), byUs: draw.between(-20_000, 20_000) },
      { kind: 'clock-drift', process: this.drawClient(), atUs: at(), ratePpm: draw.between(-RATE_PPM, RATE_PPM) },
      this.partition(at(), false),
      this.partition(at(), true),
    ];
  }

  private drawClient(): string {
    return CLIENTS[this.draw.below(CLIENTS.length)] ?? 'c1';
  }

  private clientCrash(client: string, atUs: number): Fault {
    const { draw } = this;
    if (!draw.chance(500_000)) return { kind: 'client-crash', client, atUs };
    return { kind: 'client-crash', client, atUs, restartAfterUs: draw.below(20_000) };
  }

  private partition(atUs: number, holds: boolean): Fault {
    const { draw } = this;
    const from = [this.drawClient()];
    const to = draw.subset(NODES, 2).map(nodeName);
    const oneWay = draw.chance(500_000);
    const forUs = draw.below(50_000);
    return holds
      ? { kind: 'partition', atUs, from, to, oneWay, forUs, holds }
      : { kind: 'partition', atUs, from, to, oneWay, forUs };
  }

  nextLock(client: number, view: WorldView): LockPlan | null {
    const left = this.left[client] ?? 0;
    const mine = view.clients[client]?.locks ?? [];
    // To look at place -1 of a list takes the engine as long as to name a property.
    const last = mine.length === 0 ? undefined : mine[mine.length - 1];
    const phase = last === undefined || last.gone ? undefined : last.state.phase;
    if (left === 0 || (phase !== undefined && phase !== 'released' && phase !== 'failed' && phase !== 'lost'))
      return null;
    this.left[client] = left - 1;
    const { draw } = this;
    const writes = client === 0 && draw.chance(900_000);
    return {
      atUs: view.now + 1 + client * 15_000 + draw.below(10_000),
      resources: RESOURCES,
      ttlMs: TTL_MS,
      holdUs: 1_000 + draw.below(15_000),
      extensions: draw.chance(200_000) ? [{ afterUs: draw.below(5_000), ttlMs: TTL_MS }] : NOTHING,
      writes: writes ? WRITES : NOTHING,
      jitterPpm: NOTHING,
    };
  }

  jitterPpm(): number {
    return this.draw.below(1_000_000);
  }

  fate(message: Message, direction: Direction, _send: number, fate: FateSlot, view: WorldView): void {
    // One draw for both: how much longer it takes, and every now and then something worse.
    const luck = this.draw.below(1_300_000);
    fate.delayUs += ((luck / 1_000) | 0) - 300;
    const trouble = luck % 1_000;
    if (message.withText && isInClaim(view)) this.counts.textsInClaim++;
    if (trouble < 35) this.trouble(trouble, direction, fate, view);
  }

  private trouble(which: number, direction: Direction, fate: FateSlot, view: WorldView): void {
    const inClaim = isInClaim(view) ? 1 : 0;
    if (which < 15) {
      fate.lost = true;
      this.counts.lossesInClaim += inClaim;
    } else if (which < 25) {
      fate.duplicateDelayUs = 3 * fate.delayUs;
      this.counts.copiesInClaim += inClaim;
    } else if (which < 30) {
      fate.delayUs *= 50;
      this.counts.delaysInClaim += inClaim;
    } else if (direction === 'request') {
      fate.resendAfterUs = 1_000;
      this.counts.resendsInClaim += inClaim;
    }
  }

  nextFault(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null {
    if (moment === 'start') return this.faults[this.given++] ?? null;
    if (moment !== 'claim' || lock === null || this.forgetsLeft === 0) return null;
    if (size(lock.state.votes.yes) <= lock.state.electorate.needed) return null;
    this.forgetsLeft--;
    // One that has voted for this claim: the key of another would be a vote that somebody is about to count.
    const voters = members(lock.voters);
    const node = voters[this.draw.below(voters.length)] ?? 0;
    return { kind: 'data-loss', node: nodeName(node), atUs: view.now, edge: 'after' };
  }
}
