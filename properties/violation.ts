import type { PropertyId, PropertyKind } from '../scenarios/index.js';

/** A property that does not hold, from an instant of true time on. */
export interface Violation {
  readonly property: PropertyId;
  readonly kind: PropertyKind;
  /** First instant, µs of true time. */
  readonly atUs: number;
  /** End of it, µs of true time; `null` while it lasts. */
  untilUs: number | null;
  readonly resource: string;
  /** The clients concerned, the earlier one first. */
  readonly clients: readonly string[];
  /** One sentence. */
  readonly detail: string;
}
