import { allNodes, NO_NODES, without } from '../core/nodes.js';
import { deviates, lockPolicyOf, type Policy, quorumOf, votesWantedOf } from '../deviations/index.js';
import type { System } from './system.js';

/*
 * Nodes that do not answer, and how long a client waits for them.
 */

/** Nodes that may be silent while a client gets its lock within a time that is known. */
export interface Silence {
  /** Up to a minority. */
  readonly nodes: number;
  /**
   * Why they are fewer than a minority: a client that waits for them has no time-out, or gets no lock when one is over;
   * `null` where they are not.
   */
  readonly lacks: 'time-out' | 'lock' | null;
  /** Whether the client waits for them even if all others gave their votes. */
  readonly waits: boolean;
}

/** How many silent nodes a client bears, and whether they cost time. */
export function silenceOf(policy: Policy, nodes: number): Silence {
  const minority = Math.max(0, nodes - Math.ceil(quorumOf(policy, nodes)));
  const waits = minority > 0 && votesToSettle(policy, nodes, 0) > nodes - minority;
  if (!waits) return { nodes: minority, lacks: null, waits };
  if (deviates(policy, 'error-aborts', 'error-forfeits')) return { nodes: 0, lacks: 'lock', waits };
  if (policy.settings.nodeTimeoutUs === null) return { nodes: 0, lacks: 'time-out', waits };
  return { nodes: minority, lacks: null, waits };
}

/** With how many silent nodes a time holds that an acquisition counts in, to end a sentence; empty where that is all the same. */
export function silenceWords({ client, nodes }: Pick<System, 'client' | 'nodes'>): string {
  const { nodes: silent, lacks } = silenceOf(client.policy, nodes.length);
  if (lacks !== null) return ', while all nodes answer';
  return silent === 0 ? '' : `, with ${silent} of ${nodes.length} nodes silent`;
}

/** The votes that decide a round in which so many nodes have failed already. */
function votesToSettle(policy: Policy, nodes: number, failed: number): number {
  const { rules } = lockPolicyOf(policy);
  const electorate = { nodes, needed: rules.quorum(nodes, 'acquire'), wanted: votesWantedOf(policy, nodes) };
  const isOpen = (votes: number): boolean => {
    const yes = allNodes(votes);
    const tally = { yes, no: NO_NODES, failed: without(allNodes(votes + failed), yes) };
    return rules.settle(tally, electorate) === 'open';
  };
  let votes = 1;
  while (votes < nodes - failed && isOpen(votes)) votes++;
  return votes;
}

/**
 * From the call to the lock by the client's clock, µs, if the first `silent` nodes do not answer; `Infinity` if it gets none.
 *
 * @param roundTripUs - From a request to its answer, by the same clock.
 */
export function acquiringUs(policy: Policy, nodes: number, silent: number, roundTripUs: number): number {
  const timeoutUs = policy.settings.nodeTimeoutUs ?? Number.POSITIVE_INFINITY;
  if (roundTripUs > timeoutUs) return Number.POSITIVE_INFINITY;
  const inTurn = deviates(policy, 'asks-in-turn');
  const waitedUs = silent === 0 ? 0 : timeoutUs;
  if (inTurn) return silent * waitedUs + roundTripUs * votesToSettle(policy, nodes, silent);
  return votesToSettle(policy, nodes, 0) > nodes - silent ? waitedUs : roundTripUs;
}
