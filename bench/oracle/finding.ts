import type { PropertyId } from '../../scenarios/index.js';

/** A violation as it is read off a trace afterwards. */
export interface Finding {
  readonly property: PropertyId;
  /** First instant and end, µs of true time; the same where it happens in one instant. */
  readonly atUs: number;
  readonly untilUs: number;
  readonly resource: string;
  /** The clients concerned. */
  readonly clients: readonly string[];
}
