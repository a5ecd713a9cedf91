/** What a strategy makes use of when it draws a run. */
export interface Tactics {
  /** Each run has a random subset of the kinds of trouble, so that none drowns the others; else each run has them all. */
  readonly swarm: boolean;
  /** Times are taken from the state: where claims and keys begin and end, with clocks about to tick; else from anywhere. */
  readonly biased: boolean;
  /** Trouble comes in one piece: a client cut off from several nodes, voters that go down together, long holds. */
  readonly structured: boolean;
}

/** Everything at any time. */
export const UNIFORM: Tactics = { swarm: false, biased: false, structured: false };

/** Everything that helps, at once: the default. */
export const COMBINED: Tactics = { swarm: true, biased: true, structured: true };
