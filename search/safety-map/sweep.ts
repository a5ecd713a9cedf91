import type { PolicyChange } from '../../deviations/index.js';
import type { Cluster } from '../../scenarios/index.js';
import type { Axis } from './axis.js';
import { greatest } from './bisect.js';
import { type Cell, type CellVerdict, measure } from './cell.js';
import { PARAMETERS, type ParameterName, type Point } from './point.js';
import { computed } from './theory.js';

/** A change of verdict along the second axis, found by bisection. */
export interface Boundary {
  /** Values that are next to each other: nothing lies between them. */
  readonly below: { readonly at: number; readonly verdict: CellVerdict };
  readonly above: { readonly at: number; readonly verdict: CellVerdict };
  /** Where the theory has the same change; `null` if it has none between the same two values of the grid. */
  readonly computed: number | null;
}

/** All values of the second axis at one value of the first. */
export interface Column {
  readonly at: number;
  readonly measured: readonly CellVerdict[];
  readonly computed: readonly CellVerdict[];
  readonly boundaries: readonly Boundary[];
}

/** What is swept. */
export interface SweepPlan {
  readonly x: Axis;
  readonly y: Axis;
  /** All the rest. */
  readonly base: Point;
  /** How the lock differs from the production lock in what cannot be swept. */
  readonly change?: PolicyChange;
  /** The client whose difference that is, by the name of its profile. Default: the production lock. */
  readonly profile?: string;
  /** What survives when a voter crashes, or loses its power where that is not `none`. Default `none`. */
  readonly persistence?: Cluster['persistence'];
}

/** Measures a column, its boundaries to the least difference that can be asked for. */
export function measureColumn(plan: SweepPlan, at: number): Column {
  const { y } = plan;
  const ask = (value: number): CellVerdict => measure(pointAt(plan, at, value), plan.change, plan.persistence).verdict;
  const say = (value: number): CellVerdict => computed(pointAt(plan, at, value), plan.change, plan.persistence);
  const measured = y.values.map(ask);
  const boundaries: Boundary[] = [];
  for (const [i, low] of y.values.entries()) {
    const high = y.values[i + 1];
    const [under, over] = [measured[i], measured[i + 1]];
    if (high === undefined || under === undefined || over === undefined || under === over) continue;
    const last = lastOf(y.name, low, high, (value) => ask(value) === under);
    const first = last + PARAMETERS[y.name].grain;
    const agrees = say(low) === under && say(high) === over;
    boundaries.push({
      below: { at: last, verdict: under },
      above: { at: first, verdict: ask(first) },
      computed: agrees ? crossing(y.name, low, high, (value) => say(value) === under) : null,
    });
  }
  return { at, measured, computed: y.values.map(say), boundaries };
}

/** Where the theory changes its mind along the second axis at one value of the first, everywhere on the grid. */
export function computedCrossings(plan: SweepPlan, at: number): number[] {
  const { y } = plan;
  const say = (value: number): CellVerdict => computed(pointAt(plan, at, value), plan.change, plan.persistence);
  return y.values.flatMap((low, i) => {
    const high = y.values[i + 1];
    if (high === undefined || say(low) === say(high)) return [];
    const under = say(low);
    return [crossing(y.name, low, high, (value) => say(value) === under)];
  });
}

/** One configuration of the map, with the run that shows its verdict. */
export function cellAt(plan: SweepPlan, x: number, y: number): Cell {
  return measure(pointAt(plan, x, y), plan.change, plan.persistence);
}

/** The configuration at a place of the map. */
function pointAt({ x, y, base }: SweepPlan, atX: number, atY: number): Point {
  return { ...base, [x.name]: atX, [y.name]: atY };
}

/** The last value, in whole grains, up to which it holds. */
function lastOf(name: ParameterName, low: number, high: number, holds: (value: number) => boolean): number {
  const { grain } = PARAMETERS[name];
  return grain * greatest(low / grain, high / grain, (value) => holds(grain * value));
}

const HALVINGS = 60;

/** The same on a continuous scale, where there is one: the lock rounds by whole milliseconds of TTL, and counts are whole. */
function crossing(name: ParameterName, low: number, high: number, holds: (value: number) => boolean): number {
  const { unit, grain } = PARAMETERS[name];
  if (unit === 'count' || grain > 1) return lastOf(name, low, high, holds);
  let [inside, outside] = [low, high];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (inside + outside) / 2;
    if (holds(middle)) inside = middle;
    else outside = middle;
  }
  return inside;
}
