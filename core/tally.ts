import type { Answer } from './commands.js';
import type { Votes } from './event.js';
import { has, NO_NODES, type NodeSet, oneNode, union, without } from './nodes.js';

/** What nodes answered to one command: did it, did not, or gave no answer in time. No node is in two of the sets. */
export interface Tally {
  readonly yes: NodeSet;
  readonly no: NodeSet;
  /** Errors and time-outs. */
  readonly failed: NodeSet;
}

/** Nobody has answered yet. Not frozen, because the engine would take a frozen object for another shape. */
export const NO_ANSWERS: Tally = { yes: NO_NODES, no: NO_NODES, failed: NO_NODES };

/** With one more answer. A yes stands, since a duplicate of the command finds what it did; else the last answer does. */
export function counted(tally: Tally, node: number, answer: Answer): Tally {
  if (has(tally.yes, node)) return tally;
  const it = oneNode(node);
  if (answer === 'yes') {
    return { yes: union(tally.yes, it), no: without(tally.no, it), failed: without(tally.failed, it) };
  }
  if (answer === 'no') return { yes: tally.yes, no: union(tally.no, it), failed: without(tally.failed, it) };
  return { yes: tally.yes, no: without(tally.no, it), failed: union(tally.failed, it) };
}

/** The time is up: nodes that were asked and have not answered count as failed. */
export function timedOut({ yes, no }: Tally, asked: NodeSet): Tally {
  return { yes, no, failed: without(asked, union(yes, no)) };
}

/** Without the answers of these nodes, which are asked again. */
export function forgotten({ yes, no, failed }: Tally, nodes: NodeSet): Tally {
  return { yes: without(yes, nodes), no: without(no, nodes), failed: without(failed, nodes) };
}

/** Everybody who has answered or timed out. */
export function answered({ yes, no, failed }: Tally): NodeSet {
  return union(yes, union(no, failed));
}

/** In the form that the owner of a lock gets. */
export function votesOf({ yes, no, failed }: Tally, quorum: number): Votes {
  return { granted: yes, refused: no, failed, quorum };
}
