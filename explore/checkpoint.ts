import type { ExploreScope } from './bounds.js';
import type { Parts } from './world.js';

/**
 * An exploration that was stopped, to go on with. States are numbers of parts, so that the parts belong to it, in the
 * order in which they were met. Plain data: whoever keeps it chooses how.
 */
export interface Checkpoint extends Parts {
  readonly schema: 'lockstep.exploration/3';
  readonly bounds: ExploreScope;
  /** What else was asked for, as far as it decides what is met in which order. */
  readonly asked: string;
  /** How the states are packed: by kind of number, its bits. */
  readonly bits: readonly number[];
  readonly states: Uint32Array;
  readonly parents: Uint32Array;
  readonly stack: readonly number[];
  readonly cursor: number;
  readonly depth: number;
  readonly depthEnds: number;
  readonly transitions: number;
}
