import { type PolicyChange, policyOf } from '../../deviations/index.js';
import { type Assumption, assumptions } from '../../properties/assumptions.js';
import { judge } from '../../properties/judge.js';

import {
  type Cluster,
  type Fate,
  type Fault,
  type LockPlan,
  type PropertyId,
  plainCluster,
  plainLock,
  type Schedule,
} from '../../scenarios/index.js';
import { unreached } from '../../scenarios/plain.js';
import { nodeName } from '../../sim/index.js';

/** Two schedules on either side of what the lock assumes: they differ by one quantum of one thing. */
interface BoundaryPair {
  readonly assumption: Assumption;
  /** What is taken to its limit. */
  readonly what: string;
  /** The limit, and the value just beyond it that does harm. */
  readonly inside: string;
  readonly outside: string;
  readonly within: Schedule;
  readonly beyond: Schedule;
  /** What breaks beyond it. */
  readonly breaks: PropertyId;
  /** The least number of votes behind a claim, if more than a quorum. */
  readonly votes?: number;
}

const TTL_MS = 10_000;
/** The claim of a lock that was asked for at 0 without any latency: TTL less 1 % and 2 ms. */
const CLAIM_US = 9_898_000;

interface Parts {
  readonly cluster?: Partial<Cluster>;
  readonly c1?: Partial<LockPlan>;
  readonly rival?: boolean;
  readonly lists?: readonly (readonly number[])[];
  readonly faults?: readonly Fault[];
  readonly fates?: readonly Fate[];
  readonly policy?: PolicyChange;
}

/** No latency, and nodes whose clocks are about to tick, so that a key lives 1 µs longer than its TTL and no more. */
function plan({
  cluster = {},
  c1 = {},
  rival = false,
  lists = [],
  faults = [],
  fates = [],
  policy = {},
}: Parts): Schedule {
  const nodes = cluster.nodes ?? 5;
  const lock = plainLock(0, TTL_MS);
  const own = (client: number): { readonly nodes?: readonly string[] } => {
    const list = lists[client];
    return list === undefined ? {} : { nodes: list.map(nodeName) };
  };
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(nodes, {
      delayUs: 0,
      clocks: Array.from({ length: nodes }, (_, i) => ({ process: nodeName(i), offsetUs: 999, ratePpm: 0 })),
      ...cluster,
    }),
    policy: { profile: 'reference', ...policy, settings: { tries: 1, ...policy.settings } },
    clients: [
      { id: 'c1', locks: [{ ...lock, ...c1 }], ...own(0) },
      ...(rival ? [{ id: 'c2', locks: [{ ...lock, atUs: 1_000 }], ...own(1) }] : []),
    ],
    faults,
    fates,
    untilUs: 30_000_000,
  };
}

const ALL = [0, 1, 2, 3, 4];

function rates(ppm: number): Schedule {
  const clocks = ALL.map((i) => ({ process: nodeName(i), offsetUs: 999, ratePpm: ppm }));
  return plan({ cluster: { clocks: [...clocks, { process: 'c1', offsetUs: 0, ratePpm: -ppm }] } });
}

function steps(byUs: number): Schedule {
  return plan({ faults: ALL.map((i) => ({ kind: 'clock-step', process: nodeName(i), atUs: 5_000_000, byUs })) });
}

function restart(restartAfterUs: number): Schedule {
  const faults: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 0, edge: 'after', restartAfterUs }];
  return plan({ faults, fates: unreached('c1', 'n3', 'n4') });
}

function losing(missing: readonly string[]): Schedule {
  const faults: Fault[] = [{ kind: 'data-loss', node: 'n0', atUs: 5_000_000 }];
  return plan({ faults, fates: unreached('c1', ...missing) });
}

/** Nodes come back without a counter before a lock is asked for, which they must not vote on any sooner for their keys. */
function counterless(nodes: readonly number[]): Schedule {
  const faults = nodes.map(
    (node): Fault => ({ kind: 'crash', node: nodeName(node), atUs: 0, restartAfterUs: CLAIM_US }),
  );
  return plan({ policy: { settings: { fencing: true } }, c1: { atUs: 2 * CLAIM_US }, faults });
}

function failover(replicaLagUs: number): Schedule {
  const faults: Fault[] = [{ kind: 'failover', node: 'n0', atUs: 0, edge: 'after' }];
  return plan({ cluster: { nodes: 1, replicaLagUs }, faults, rival: true });
}

function membership(second: readonly number[]): Schedule {
  const fates = [...unreached('c1', 'n2', 'n3'), ...unreached('c2', 'n0', 'n1')];
  return plan({ cluster: { nodes: 6 }, lists: [ALL, second], rival: true, fates });
}

/** A write that is checked when exactly as much is left as its guard asks for. */
function write(delayUs: number): Schedule {
  const guardUs = 898_000;
  const checkAfterUs = CLAIM_US - guardUs;
  return plan({ c1: { writes: [{ checkAfterUs, guardUs, sendAfterUs: checkAfterUs, delayUs }] } });
}

/** What each assumption is worth: the last value that is safe, and the next one, which is not. */
export const BOUNDARY_PAIRS: readonly BoundaryPair[] = [
  {
    assumption: 'clock-drift',
    what: 'rate error of node clocks (fast) and client clocks (slow)',
    inside: '5 126 ppm',
    outside: '5 127 ppm',
    within: rates(5_126),
    beyond: rates(5_127),
    breaks: 'quorum-backed',
  },
  {
    assumption: 'clock-step',
    what: 'sum of forward steps of a node clock (at 102 001 µs the key is gone as the claim ends)',
    inside: '102 000 µs',
    outside: '102 002 µs',
    within: steps(102_000),
    beyond: steps(102_002),
    breaks: 'quorum-backed',
  },
  {
    assumption: 'durability',
    what: 'restart delay of a node that voted and has no disk',
    inside: '9 898 000 µs',
    outside: '9 897 999 µs',
    within: restart(CLAIM_US),
    beyond: restart(CLAIM_US - 1),
    breaks: 'quorum-backed',
  },
  {
    assumption: 'durability',
    what: 'votes behind a claim of which one node forgets, quorum 3 of 5',
    inside: '4 votes',
    outside: '3 votes',
    within: losing(['n4']),
    beyond: losing(['n3', 'n4']),
    breaks: 'quorum-backed',
    votes: 4,
  },
  {
    assumption: 'counters',
    what: 'nodes that lose their fencing counter before one of them has rejoined, quorum 3 of 5',
    inside: '2 nodes',
    outside: '3 nodes',
    within: counterless([0, 1]),
    beyond: counterless([0, 1, 2]),
    breaks: 'fencing',
  },
  {
    assumption: 'durable-failover',
    what: 'lag of a replica that takes over right after the vote',
    inside: '0 µs',
    outside: '1 µs',
    within: failover(0),
    beyond: failover(1),
    breaks: 'mutual-exclusion',
  },
  {
    assumption: 'same-membership',
    what: 'nodes on which the lists of two clients differ',
    inside: 'no node',
    outside: 'one node of five',
    within: membership(ALL),
    beyond: membership([0, 1, 2, 3, 5]),
    breaks: 'mutual-exclusion',
  },
  {
    assumption: 'bounded-write-delay',
    what: 'delay of a write that is sent with 898 000 µs of validity left',
    inside: '897 999 µs',
    outside: '898 000 µs',
    within: write(897_999),
    beyond: write(898_000),
    breaks: 'no-stale-write',
  },
];

/** What a pair shows: nothing broken within; beyond, one assumption and the property that rests on it. */
interface PairResult {
  readonly within: { readonly assumptions: readonly Assumption[]; readonly violated: readonly PropertyId[] };
  readonly beyond: { readonly assumptions: readonly Assumption[]; readonly violated: readonly PropertyId[] };
  readonly holds: boolean;
}

/** Runs both schedules of a pair. */
export function playPair(pair: BoundaryPair): PairResult {
  const within = play(pair.within, pair.votes);
  const beyond = play(pair.beyond);
  const holds =
    within.assumptions.length === 0 &&
    within.violated.length === 0 &&
    beyond.assumptions.join() === pair.assumption &&
    beyond.violated.includes(pair.breaks);
  return { within, beyond, holds };
}

function play(schedule: Schedule, votes?: number): PairResult['within'] {
  const { violations, assumptionsBroken } = judge(schedule, ['quorum-backed']);
  return {
    assumptions: votes === undefined ? assumptionsBroken : assumptions(schedule, policyOf(schedule.policy), { votes }),
    violated: [...new Set(violations.map(({ property }) => property))],
  };
}

/** The pairs as a table of Markdown. */
export function assumptionsTable(): string {
  const rows = BOUNDARY_PAIRS.map(({ assumption, what, inside, outside, breaks }) => {
    return `| \`${assumption}\` | ${what} | ${inside} | ${outside} | \`${breaks}\` |`;
  });
  const head = ['| assumption | taken to its limit | safe | broken | what breaks |', '|---|---|---|---|---|'];
  return [...head, ...rows].join('\n');
}
