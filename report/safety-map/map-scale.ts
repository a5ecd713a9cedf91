import type { Axis, CellVerdict, SafetyMap } from '../../search/safety-map/index.js';

/** Where values of an axis lie, in percent of its length. */
export interface AxisScale {
  /** One more than there are values: where one cell ends and the next begins. */
  readonly borders: readonly number[];
  readonly of: (value: number) => number;
  readonly isInside: (value: number) => boolean;
}

/** Values that span more than this are spaced by their ratios. */
const WIDE = 20;

/** The scale of an axis; one that spans much, and has no 0, is logarithmic. */
export function axisScale({ values }: Axis, mayBeWide: boolean): AxisScale {
  const [first = 0] = values;
  const last = values.at(-1) ?? first;
  const isWide = mayBeWide && first > 0 && last / first > WIDE;
  const to = isWide ? Math.log : (value: number): number => value;
  const places = values.map(to);
  const between = places.slice(1).map((place, i) => (place + (places[i] ?? 0)) / 2);
  const [low = 0, high = 0] = [places[0], places.at(-1)];
  const edges = [2 * low - (between[0] ?? low + 1), ...between, 2 * high - (between.at(-1) ?? high - 1)];
  const [from = 0, until = 1] = [edges[0], edges.at(-1)];
  const share = (place: number): number => (100 * (place - from)) / (until - from);
  const of = (value: number): number => share(isWide && value <= 0 ? from : to(value));
  return { borders: edges.map(share), of, isInside: (value) => of(value) >= 0 && of(value) <= 100 };
}

/** Cells of one verdict that touch in a column. */
export interface Stretch {
  readonly column: number;
  readonly verdict: CellVerdict;
  readonly from: number;
  /** The first one that is no longer part of it. */
  readonly to: number;
}

/** The map as few rectangles, column by column, from below. */
export function stretchesOf({ columns }: SafetyMap): Stretch[] {
  return columns.flatMap(({ measured }, column) => {
    const found: Stretch[] = [];
    for (const [row, verdict] of measured.entries()) {
      const last = found.at(-1);
      if (last?.verdict === verdict) found[found.length - 1] = { ...last, to: row + 1 };
      else found.push({ column, verdict, from: row, to: row + 1 });
    }
    return found;
  });
}

/** At most so many of these places, evenly, with the first and the last. */
export function spread(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  const picked = Array.from({ length: most }, (_, i) => Math.round((i * (count - 1)) / (most - 1)));
  return [...new Set(picked)];
}
