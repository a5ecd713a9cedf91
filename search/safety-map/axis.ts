import { PARAMETERS, type ParameterName } from './point.js';

/** One side of the map: a parameter and the values that are tried, ascending. */
export interface Axis {
  readonly name: ParameterName;
  readonly values: readonly number[];
}

/** From where to where a parameter is swept, in its unit. */
interface Range {
  readonly low: number;
  readonly high: number;
}

const SECOND = 1_000_000;
const MS = 1_000;

/** Ranges in which the usual configurations lie. */
export const USUAL_RANGES: Readonly<Record<ParameterName, Range>> = {
  ttl: { low: SECOND, high: 30 * SECOND },
  drift: { low: 0, high: 20_000 },
  'drift-allowance': { low: 0, high: 50_000 },
  'fixed-allowance': { low: 0, high: 20 * MS },
  'restart-delay': { low: 0, high: 15 * SECOND },
  step: { low: 0, high: 500 * MS },
  latency: { low: 0, high: 100 * MS },
  nodes: { low: 1, high: 9 },
  votes: { low: 1, high: 9 },
  'faulty-voters': { low: 0, high: 5 },
  'nodes-down': { low: 0, high: 5 },
  'write-delay': { low: 0, high: 2 * SECOND },
  guard: { low: 0, high: 2 * SECOND },
};

/** A range that spans more than this is divided by ratios, not by differences. */
const WIDE = 20;

/** At most `most` values from `low` to `high`, both included: round ones, or equal ratios where the range is wide. */
export function axisOver(name: ParameterName, { low, high }: Range, most: number): Axis {
  const { grain, unit } = PARAMETERS[name];
  const isWide = unit === 'µs' && low > 0 && high / low > WIDE;
  const raw = isWide ? ratios(low, high, most) : steps(low, high, most, grain);
  const values = raw.map((value) => Math.round(value / grain) * grain);
  return { name, values: [...new Set([...values, low, high])].sort((a, b) => a - b) };
}

function ratios(low: number, high: number, count: number): number[] {
  const ratio = (high / low) ** (1 / (count - 1));
  return Array.from({ length: count }, (_, i) => threeDigits(low * ratio ** i)).filter((it) => it >= low && it <= high);
}

function threeDigits(value: number): number {
  return Number(value.toPrecision(3));
}

const ROUND = [1, 2, 2.5, 5];

/** Multiples of the least round step that is coarse enough. */
function steps(low: number, high: number, most: number, grain: number): number[] {
  const least = Math.max(grain, (high - low) / (most - 1));
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [...ROUND, 10].map((it) => it * power).find((it) => it >= least * (1 - 1e-9) && it % grain === 0);
  const by = step ?? 10 * power;
  const first = Math.ceil(low / by);
  const count = Math.max(0, Math.floor(high / by) - first + 1);
  return Array.from({ length: count }, (_, i) => (first + i) * by);
}
