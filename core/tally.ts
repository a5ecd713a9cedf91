import type { Answer } from './commands.js';
import type { Votes } from './event.js';
import { NO_NODES, type NodeSet, oneNode, union, without } from './nodes.js';

/** What nodes answered to one command: did it, did not, or gave no answer in time. No node is in two of the sets. */
export interface Tally {
  readonly yes: NodeSet;
  readonly no: NodeSet;
  /** Errors and time-outs. */
  readonly failed: NodeSet;
}

/** The same while it is counted. */
export interface DraftTally {
  yes: NodeSet;
  no: NodeSet;
  failed: NodeSet;
}

/** A tally in which nobody has answered, to be written to. */
export function newTally(): DraftTally {
  return { yes: NO_NODES, no: NO_NODES, failed: NO_NODES };
}

/** A copy, to be written to. */
export function copyTally({ yes, no, failed }: Tally): DraftTally {
  return { yes, no, failed };
}

/** Makes one tally what another one is. */
export function setTally(tally: DraftTally, { yes, no, failed }: Tally): void {
  tally.yes = yes;
  tally.no = no;
  tally.failed = failed;
}

/** Counts one more answer, as {@link counted}. */
export function count(tally: DraftTally, node: number, answer: Answer): void {
  const it = oneNode(node);
  if ((tally.yes & it) !== 0) return;
  tally.no = answer === 'no' ? union(tally.no, it) : without(tally.no, it);
  tally.failed = answer === 'error' ? union(tally.failed, it) : without(tally.failed, it);
  if (answer === 'yes') tally.yes = union(tally.yes, it);
}

/** The time is up, as {@link timedOut}. */
export function timeOut(tally: DraftTally, asked: NodeSet): void {
  tally.failed = without(asked, union(tally.yes, tally.no));
}

/** Takes the answers of these nodes out, which are asked again. */
export function withdraw(tally: DraftTally, nodes: NodeSet): void {
  tally.yes = without(tally.yes, nodes);
  tally.no = without(tally.no, nodes);
  tally.failed = without(tally.failed, nodes);
}

/** Nobody has answered yet. Not frozen, because the engine would take a frozen object for another shape. */
export const NO_ANSWERS: Tally = { yes: NO_NODES, no: NO_NODES, failed: NO_NODES };

/** With one more answer. A yes stands, since a duplicate of the command finds what it did; else the last answer does. */
export function counted(tally: Tally, node: number, answer: Answer): Tally {
  const more = copyTally(tally);
  count(more, node, answer);
  return more;
}

/** The time is up: nodes that were asked and have not answered count as failed. */
export function timedOut(tally: Tally, asked: NodeSet): Tally {
  const all = copyTally(tally);
  timeOut(all, asked);
  return all;
}

/** Everybody who has answered or timed out. */
export function answered({ yes, no, failed }: Tally): NodeSet {
  return union(yes, union(no, failed));
}

/** In the form that the owner of a lock gets. */
export function votesOf({ yes, no, failed }: Tally, quorum: number): Votes {
  return { granted: yes, refused: no, failed, quorum };
}
