import { formatDurationMs } from '../../scenarios/index.js';
import type { PlaceInInstant } from './instants.js';
import { textWidth } from './marks.js';

/** A stretch of time in which nothing happens, drawn short. */
interface Fold {
  readonly x: number;
  readonly width: number;
  readonly us: number;
}

/** A place on the axis with its label. */
interface Tick {
  readonly x: number;
  readonly label: string;
}

/** Where instants lie. */
export interface Scale {
  /** Pixels from the left; `seq` tells events of one instant apart. */
  readonly x: (us: number, seq?: number) => number;
  /** Pixels from the left to where the scale ends. */
  readonly right: number;
  readonly folds: readonly Fold[];
  readonly ticks: readonly Tick[];
  /** Instants in which events lie apart: from where to where, pixels. */
  readonly instants: readonly (readonly [from: number, to: number])[];
}

/** From where to where a scale goes, pixels, and how it names instants. */
export interface ScaleOptions {
  readonly left: number;
  /** Least width. */
  readonly width: number;
  readonly zoom: number;
  /** Instants whose labels matter most. */
  readonly marked: readonly number[];
  readonly label?: (us: number) => string;
  /** Where events lie within their instants; those that are not in it lie at the beginning. */
  readonly places?: ReadonlyMap<number, PlaceInInstant>;
}

const USUAL_GAP = 46;
const LEAST_GAP = 22;
const FOLD_WIDTH = 64;
/** A gap is quiet if it is this many times as long as the usual one. */
const QUIET = 6;
const TICK_SPACE = 8;

/** Round trips are milliseconds, a TTL is seconds: quiet gaps are drawn short, and say how long they are. */
export function foldedScale(instants: readonly number[], options: ScaleOptions): Scale {
  const times = sorted(instants);
  const gaps = times.slice(1).map((time, i) => time - (times[i] ?? 0));
  const usual = median(gaps);
  const isQuiet = (gap: number): boolean => gap > usual * QUIET;
  const natural = gaps.map((gap) =>
    isQuiet(gap) ? FOLD_WIDTH : Math.min(Math.max((gap / usual) * USUAL_GAP, LEAST_GAP), USUAL_GAP * 3),
  );
  const places = options.places ?? new Map<number, PlaceInInstant>();
  const widths = widthsOf(times, places);
  const all = [...natural, ...widths].reduce((sum, it) => sum + it, 0);
  const wanted =
    options.zoom < 1 ? Math.max(options.width, all * options.zoom) : Math.max(options.width, all) * options.zoom;
  const factor = all === 0 ? 1 : wanted / all;
  const starts: number[] = [options.left];
  const ends: number[] = [options.left + (widths[0] ?? 0) * factor];
  for (const [i, width] of natural.entries()) {
    starts.push((ends[i] ?? 0) + width * factor);
    ends.push((starts[i + 1] ?? 0) + (widths[i + 1] ?? 0) * factor);
  }
  const folds = gaps.flatMap((gap, i) =>
    isQuiet(gap) ? [{ x: ends[i] ?? 0, width: (natural[i] ?? 0) * factor, us: gap }] : [],
  );
  const spans = starts.flatMap((from, i) => ((ends[i] ?? from) > from ? [[from, ends[i] ?? from] as const] : []));
  const at = piecewise(times, starts, ends);
  const x = (us: number, seq?: number): number => {
    const place = seq === undefined ? undefined : places.get(seq);
    return at(us) + (place?.atUs === us ? place.offset * factor : 0);
  };
  return { x, right: ends.at(-1) ?? options.left, folds, ticks: ticksAt(times, at, options), instants: spans };
}

/** How wide each instant is. */
function widthsOf(times: readonly number[], places: ReadonlyMap<number, PlaceInInstant>): number[] {
  const widest = new Map<number, number>();
  for (const { atUs, offset } of places.values()) if (offset > (widest.get(atUs) ?? 0)) widest.set(atUs, offset);
  return times.map((us) => widest.get(us) ?? 0);
}

/** True time as it is. */
export function linearScale(instants: readonly number[], options: ScaleOptions): Scale {
  const times = sorted(instants);
  const first = times[0] ?? 0;
  const span = Math.max(1, (times.at(-1) ?? 0) - first);
  const width = options.width * options.zoom;
  const x = (us: number): number => options.left + (width * Math.min(Math.max(us - first, 0), span)) / span;
  return { x, right: options.left + width, folds: [], instants: [], ticks: ticksAt(times, x, options) };
}

/** Each event has a place of its own; what has none takes that of the events at its instant. */
export function orderScale(
  events: readonly { readonly seq: number; readonly atUs: number }[],
  options: ScaleOptions,
): Scale {
  const fitting = options.width / Math.max(1, events.length);
  const step =
    options.zoom < 1 ? Math.max(fitting, LEAST_GAP * options.zoom) : Math.max(LEAST_GAP, fitting) * options.zoom;
  const places = new Map(events.map((event, place) => [event.seq, place]));
  const times = events.map((event) => event.atUs);
  const x = (us: number, seq?: number): number => {
    const place = (seq === undefined ? undefined : places.get(seq)) ?? lowerBound(times, us);
    return options.left + step * (place + 0.5);
  };
  const ticks = ticksAt([...new Set(times)], x, options);
  return { x, right: options.left + step * Math.max(1, events.length), folds: [], instants: [], ticks };
}

function sorted(instants: readonly number[]): number[] {
  return [...new Set(instants)].sort((a, b) => a - b);
}

function median(values: readonly number[]): number {
  const all = [...values].sort((a, b) => a - b);
  return all[Math.floor(all.length / 2)] ?? 1;
}

/** From an instant to where it begins; between two, from the end of the earlier to the beginning of the later one. */
function piecewise(
  times: readonly number[],
  starts: readonly number[],
  ends: readonly number[],
): (us: number) => number {
  return (us) => {
    const i = lowerBound(times, us);
    const [to, from] = [times[i], times[i - 1]];
    if (to === us || from === undefined) return starts[i] ?? starts[0] ?? 0;
    if (to === undefined) return ends.at(-1) ?? 0;
    const [start = 0, end = 0] = [ends[i - 1], starts[i]];
    return start + ((end - start) * (us - from)) / (to - from);
  };
}

/** Index of the first value that is not below `value`. */
export function lowerBound(values: readonly number[], value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Labels as far as there is room, those that matter most first. */
function ticksAt(times: readonly number[], x: (us: number) => number, options: ScaleOptions): Tick[] {
  const label = options.label ?? formatDurationMs;
  const marked = new Set(options.marked);
  const taken = new Slots();
  const place = (us: number): Tick[] => {
    const at = x(us);
    const text = label(us);
    const half = textWidth(text, 10) / 2 + TICK_SPACE / 2;
    return taken.take(at - half, at + half) ? [{ x: at, label: text }] : [];
  };
  const first = times.filter((us) => marked.has(us)).flatMap(place);
  const rest = times.filter((us) => !marked.has(us)).flatMap(place);
  return [...first, ...rest].sort((a, b) => a.x - b.x);
}

/** A row in which things lie beside each other. Cheap where they come from left to right. */
export class Slots {
  private readonly from: number[] = [];
  private readonly to: number[] = [];

  /** Takes the place if nothing is there yet. */
  take(from: number, to: number): boolean {
    const i = lowerBound(this.from, from);
    if ((this.to[i - 1] ?? Number.NEGATIVE_INFINITY) > from || (this.from[i] ?? Number.POSITIVE_INFINITY) < to)
      return false;
    this.from.splice(i, 0, from);
    this.to.splice(i, 0, to);
    return true;
  }
}
