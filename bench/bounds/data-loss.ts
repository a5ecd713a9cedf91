import type { Fault } from '../../scenarios/index.js';
import { type Attack, strikeAt } from '../../search/safety-map/adversary.js';

const TTL_MS = 10_000;
const DELAY_US = 1000;
const CLAIMED_US = 2 * DELAY_US;

/** The holder has `votes` votes of `nodes`, and the lock needs `quorum`. */
export interface VoteCase {
  readonly nodes: number;
  readonly quorum: number;
  readonly votes: number;
}

/** These nodes forget everything, one after the other, a millisecond apart; a rival comes when all have. */
export function dataLossAttack({ nodes, quorum, votes }: VoteCase, losing: readonly number[]): Attack {
  const atUs = (place: number): number => CLAIMED_US + 1000 * (place + 1);
  const faults = losing.map(
    (node, place): Fault => ({ kind: 'crash', atUs: atUs(place), node: `n${node}`, restartAfterUs: 0 }),
  );
  const setting = {
    ttlMs: TTL_MS,
    delayUs: DELAY_US,
    nodes,
    votes,
    policy: { deviations: [`quorum:${quorum}`] },
    faults,
  };
  return strikeAt(setting, atUs(losing.length));
}

/** The least number of nodes with data loss, whichever they are, with which two clients believe at once. */
export function leastForExclusion(wanted: VoteCase): number {
  return leastWithDataLoss(wanted, (run) => run.overlap);
}

/** The least number of nodes with data loss, whichever they are, with which fewer than a quorum are behind the holder. */
export function leastForQuorum(wanted: VoteCase): number {
  return leastWithDataLoss(wanted, (run) => run.quorumLost);
}

function leastWithDataLoss(wanted: VoteCase, broken: (run: Attack) => boolean): number {
  for (let size = 0; size <= wanted.nodes; size++) {
    for (const nodes of subsets(wanted.nodes, size)) if (broken(dataLossAttack(wanted, nodes))) return size;
  }
  throw new Error('holds even if every node forgets');
}

/** All sets of so many of the first nodes. */
export function subsets(of: number, size: number, first = 0): number[][] {
  if (size === 0) return [[]];
  const all: number[][] = [];
  for (let node = first; node < of; node++) {
    for (const rest of subsets(of, size - 1, node + 1)) all.push([node, ...rest]);
  }
  return all;
}
