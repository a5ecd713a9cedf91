import type { RiskMitigation } from '../advise/risk/mitigations.js';
import type { RiskModel } from '../advise/risk/model.js';
import type { RangeEnd, SystemRates } from '../advise/risk/rates.js';
import type { CauseRisk, RiskEstimate } from '../advise/risk/summary.js';
import type { System } from '../advise/system.js';

/** A run that shows a cause, as a file. */
export interface WrittenExample {
  readonly cause: CauseRisk;
  /** `null` where it could not be written. */
  readonly path: string | null;
  readonly replay: string | null;
}

/** A change with its estimate. */
export interface EstimatedChange {
  readonly mitigation: RiskMitigation;
  readonly estimate: RiskEstimate;
}

/** All that is estimated for one end of the ranges. */
export interface RiskAnswer {
  /** `null` where nothing is a range. */
  readonly end: RangeEnd | null;
  readonly system: System;
  readonly locks: SystemRates;
  readonly model: RiskModel;
  readonly seed: string;
  readonly estimate: RiskEstimate;
  readonly examples: readonly WrittenExample[];
  readonly changes: readonly EstimatedChange[];
}
