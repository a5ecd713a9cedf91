import type { Shard } from '../campaign/index.js';
import type { CheckFlags } from './flags.js';

/** What a campaign is called where nobody says. */
export const USUAL_NAME = 'campaign';

/** Something with its weight, as it was written. */
export interface Weighted {
  readonly text: string;
  readonly weight: number;
}

/** Where a campaign is. */
export interface QueueFlags {
  /** `true` takes the one of `LOCKSTEP_QUEUE`. */
  readonly queue?: string | true;
  readonly name?: string;
  readonly json?: boolean;
}

/** Flags of `campaign`. */
export interface CampaignFlags extends QueueFlags, Omit<CheckFlags, 'shrink'> {
  readonly around?: string;
  readonly profiles?: readonly Weighted[];
  readonly libraries?: readonly Weighted[];
  readonly faultClasses?: readonly Weighted[];
  readonly rangeRuns?: number;
  readonly untilFound?: number;
  readonly shard?: Shard;
  readonly out?: string;
  readonly resume?: boolean;
}

/** Flags of `campaign work`. */
export interface WorkFlags extends QueueFlags {
  readonly workers?: number;
}

/** Flags of `campaign status`. */
export interface StatusFlags extends QueueFlags {
  /** Whether to go on saying how far it is, until it is over: how often, µs; `true` for the usual. */
  readonly follow?: number | true;
}

/** Flags of `campaign serve`. */
export interface ServeFlags extends QueueFlags {
  readonly port?: number;
}

/** Flags of `campaign merge`. */
export interface MergeFlags {
  readonly out?: string;
  readonly json?: boolean;
}
