import {
  faultyForExclusion,
  faultyForQuorum,
  greatestSplitNodes,
  leastExtendedNodes,
} from '../../search/safety-map/computed.js';
import { leastForExclusion, leastForQuorum, type VoteCase } from './data-loss.js';
import { leastExtended } from './extensions.js';
import { compare, type Row } from './row.js';
import { greatestSplit } from './split.js';

const MOST_NODES = 7;
const MOST_CLIENTS = 4;

function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}

/** Every quorum that two clients cannot both have without a common node, with every number of votes that reaches it. */
const VOTE_CASES: readonly VoteCase[] = range(1, MOST_NODES).flatMap((nodes) =>
  range(majorityOf(nodes), nodes).flatMap((quorum) => range(quorum, nodes).map((votes) => ({ nodes, quorum, votes }))),
);

/** Numbers of nodes with data loss. */
export function dataLossRows(): Row[] {
  const exclusion = VOTE_CASES.map((wanted) =>
    compare({
      quantity: 'nodes with data loss that break mutual exclusion',
      parameters: describe(wanted),
      unit: 'nodes',
      measured: leastForExclusion(wanted),
      computed: faultyForExclusion(wanted.nodes, wanted.quorum, wanted.votes),
    }),
  );
  const quorum = VOTE_CASES.map((wanted) =>
    compare({
      quantity: 'nodes with data loss that break the quorum',
      parameters: describe(wanted),
      unit: 'nodes',
      measured: leastForQuorum(wanted),
      computed: faultyForQuorum(wanted.quorum, wanted.votes),
    }),
  );
  return [...exclusion, ...quorum];
}

function describe({ nodes, quorum, votes }: VoteCase): string {
  return `N = ${nodes}, q = ${quorum}, m = ${votes}`;
}

/** Nodes that have to carry out an extension. */
export function extendedRows(): Row[] {
  return range(2, MOST_NODES).flatMap((nodes) =>
    range(majorityOf(nodes), nodes).map((quorum) =>
      compare({
        quantity: 'nodes that must carry out an extension',
        parameters: `N = ${nodes}, q = ${quorum}`,
        unit: 'nodes',
        measured: leastExtended(nodes, quorum),
        computed: leastExtendedNodes(nodes, quorum),
      }),
    ),
  );
}

/** Split votes. */
export function splitRows(): Row[] {
  return range(1, MOST_NODES).flatMap((nodes) =>
    range(1, MOST_CLIENTS).map((clients) =>
      compare({
        quantity: 'most nodes up with which a vote can split',
        parameters: `N = ${nodes}, q = ${majorityOf(nodes)}, C = ${clients}`,
        unit: 'nodes',
        measured: greatestSplit(nodes, clients),
        computed: greatestSplitNodes(nodes, majorityOf(nodes), clients),
      }),
    ),
  );
}
