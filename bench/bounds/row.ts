/** One boundary, measured by runs and computed from its formula. */
export interface Row {
  readonly quantity: string;
  readonly parameters: string;
  readonly unit: Unit;
  readonly measured: number;
  /** The formula's value under exactly these circumstances. */
  readonly computed: number;
  /** The formula's value in the limit of continuous phases, where that is another one. */
  readonly limit: number | null;
  /** Measured less computed. */
  readonly difference: number;
  /** What the difference amounts to in time, µs; `null` for numbers of nodes. */
  readonly differenceUs: number | null;
  readonly agrees: boolean;
}

/** What a bound is measured in. */
export type Unit = 'ppm' | 'µs' | 'ms' | 'nodes';

/** Agreement is to one microsecond or one ppm; numbers of nodes and whole milliseconds are exact. */
const TOLERANCE: Readonly<Record<Unit, number>> = { ppm: 1, µs: 1, ms: 0, nodes: 0 };

/** What rounding of doubles may add to a figure that is exactly at the tolerance. */
const ROUNDING = 1e-6;

/** The part of a row that is said; the rest follows. */
interface Comparison {
  readonly quantity: string;
  readonly parameters: string;
  readonly unit: Unit;
  readonly measured: number;
  readonly computed: number;
  readonly limit?: number;
  /** How much time one unit is worth at the boundary, µs, if the unit is not one of time. */
  readonly unitUs?: number;
}

/** Puts a measured figure beside a computed one. */
export function compare(it: Comparison): Row {
  const { quantity, parameters, unit, measured, computed } = it;
  const difference = measured - computed;
  const unitUs = unit === 'µs' ? 1 : unit === 'ms' ? 1000 : it.unitUs;
  const differenceUs = unitUs === undefined ? null : difference * unitUs;
  const exact = unit === 'nodes' || unit === 'ms';
  const agrees =
    Math.abs(difference) <= TOLERANCE[unit] + ROUNDING ||
    (!exact && differenceUs !== null && Math.abs(differenceUs) <= TOLERANCE.µs + ROUNDING);
  const limit = it.limit === undefined || it.limit === computed ? null : it.limit;
  return { quantity, parameters, unit, measured, computed, limit, difference, differenceUs, agrees };
}
