import type { Votes } from './event.js';
import type { DraftState } from './state.js';

/** The votes behind the state's attempt, or behind its last extension. */
export function votesOf(s: Readonly<DraftState>): Votes {
  return { granted: s.granted, refused: s.refused, failed: s.failed, quorum: s.quorum };
}
