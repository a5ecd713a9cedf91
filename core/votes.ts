import type { Answer } from './commands.js';
import type { Votes } from './event.js';
import { has, oneNode, union, without } from './nodes.js';
import type { DraftState } from './state.js';

/** The votes behind the state's attempt, or behind its last extension. */
export function votesOf(s: Readonly<DraftState>): Votes {
  return { granted: s.granted, refused: s.refused, failed: s.failed, quorum: s.quorum };
}

/** Counts one answer. A yes stands, since a duplicate of the command finds our own key; else the last answer does. */
export function recordVote(s: DraftState, node: number, answer: Answer): void {
  if (has(s.granted, node)) return;
  const it = oneNode(node);
  s.refused = without(s.refused, it);
  s.failed = without(s.failed, it);
  if (answer === 'yes') s.granted = union(s.granted, it);
  else if (answer === 'no') s.refused = union(s.refused, it);
  else s.failed = union(s.failed, it);
}
