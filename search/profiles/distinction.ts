import type { PolicyChange } from '../../deviations/index.js';
import type { Question } from './question.js';

/** Some clients, and why they are what was not stated of them. */
export type Correction = readonly [profiles: readonly string[], why: string];

/** A schedule on which known clients differ: what was stated of them from their sources, and what came of it here. */
export interface Distinction {
  /** Of the scenario. */
  readonly id: string;
  readonly question: Question;
  /** What a client must have, so that the schedule says anything about it. */
  readonly about: 'locks' | 'extensions' | 'watchdogs';
  /** What is the same for all of them, beside what each deviates in. */
  readonly fixed: PolicyChange;
  /** The only clients that have what it is about. */
  readonly only?: readonly string[];
  /** Who fails, as read in their sources. */
  readonly stated: readonly string[] | 'all';
  /** Who fails here as well, and who does not. */
  readonly beyond: readonly Correction[];
  readonly spared: readonly Correction[];
}
