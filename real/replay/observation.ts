import type { FaultSeen, LockLine } from '../../scenarios/history-line.js';

/** Times of a run on real nodes: µs from its start, by the one clock of the process that plays it. */
export interface Interval {
  readonly fromUs: number;
  readonly toUs: number;
}

/** A claim that was made or kept without ground, as its own client can tell from what it was answered. */
export interface Unfounded {
  readonly lock: string;
  /** `loss-notified`: the claim is over, and its owner was not told. The others: no majority can have said yes. */
  readonly property: 'acquisition' | 'extension' | 'loss-notified';
  readonly detail: string;
}

/** An acquisition that had not come to its end when the run was over. */
export interface Waiting {
  readonly client: string;
  readonly resources: readonly string[];
  readonly sinceUs: number;
}

/** How the machine kept to the times that are written down, µs: what was worst. */
interface Lateness {
  /** Calls, faults and timers. */
  readonly eventUs: number;
  /** Connections on the loopback. */
  readonly answerUs: number;
  /** Servers that started. */
  readonly startUs: number;
}

/** What was seen of one run on real nodes. */
export interface Observation {
  /** What clients asked for, were told, and wrote. */
  readonly history: readonly LockLine[];
  /** What was done to processes and ways, as it was done. */
  readonly faults: readonly FaultSeen[];
  /** Who acquired, in order. */
  readonly claims: readonly { readonly client: string; readonly atUs: number }[];
  /** When fewer nodes than a quorum could be connected to. */
  readonly down: readonly Interval[];
  /** When orphaned keys kept everybody from a quorum. */
  readonly blocked: readonly Interval[];
  /** Locks that were believed in while a majority of the nodes did not have them. */
  readonly unsupported: readonly string[];
  readonly unfounded: readonly Unfounded[];
  /** Who waited in vain. */
  readonly waiting: readonly Waiting[];
  /** Longest that a wait can last with nobody to blame, µs: a key's life, a pause between attempts, their time-outs. */
  readonly patienceUs: number;
  readonly endUs: number;
  readonly lateness: Lateness;
  readonly nodes: string;
}
