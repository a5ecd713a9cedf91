import type { PropertyId } from '../../scenarios/index.js';
import type { Cell } from './cell.js';
import { type Boundary, type Column, cellAt, measureColumn, type SweepPlan } from './sweep.js';

/** What a sweep measured, column by column. */
export interface SafetyMap {
  readonly plan: SweepPlan;
  /** As many as were measured, in the order of the first axis. */
  readonly columns: readonly Column[];
  /** The column that the answer is about: that of the configuration itself, or the middle one. */
  readonly focus: Column;
  readonly interrupted: boolean;
}

/** How a map is measured. */
interface SweepOptions {
  readonly signal?: AbortSignal;
  /** How many of all columns are done. */
  readonly onProgress?: (done: number, total: number) => void;
  /** Lets an interruption in, between two columns. Default: a turn of Node's event loop. */
  readonly pause?: () => Promise<unknown>;
}

/** Measures the whole map. Asked to stop, it returns what it has; the column of the answer comes first. */
export async function sweep(plan: SweepPlan, options: SweepOptions = {}): Promise<SafetyMap> {
  const { signal, onProgress, pause = aTurn } = options;
  const { values } = plan.x;
  const focus = focusOf(plan);
  const columns: Column[] = [];
  for (const at of values) {
    onProgress?.(columns.length, values.length);
    await pause();
    if (signal?.aborted) break;
    columns.push(at === focus.at ? focus : measureColumn(plan, at));
  }
  return { plan, columns, focus, interrupted: columns.length < values.length };
}

function aTurn(): Promise<unknown> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The column of the configuration itself or of the middle, whichever safety ends in; if it does in none, the former. */
function focusOf(plan: SweepPlan): Column {
  const { x, base } = plan;
  const [low = 0] = x.values;
  const high = x.values.at(-1) ?? low;
  const own = base[x.name];
  const middle = x.values[Math.floor(x.values.length / 2)] ?? low;
  const isInside = own !== null && own >= low && own <= high;
  // What is 0 where nobody says otherwise is nobody's configuration.
  const wanted = !isInside ? [middle] : own === 0 ? [middle, own] : [own, middle];
  const columns = wanted.map((at) => measureColumn(plan, at));
  const [first = measureColumn(plan, middle)] = columns;
  return columns.find((it) => safetyEnd(it) !== undefined) ?? first;
}

function safetyEnd({ boundaries }: Column): Boundary | undefined {
  return boundaries.find(({ below, above }) => [below.verdict, above.verdict].sort().join(' ') === 'safe violated');
}

/** A place of the map with the run that shows its verdict. */
export interface WitnessRun {
  readonly at: number;
  readonly cell: Cell;
}

/** The edge of what is safe, at the column of the answer, with a run on each side. */
export interface BoundaryWitness {
  readonly x: number;
  readonly boundary: Boundary;
  /** The safe run that comes nearest to a violation. */
  readonly deepestSafe: WitnessRun;
  /** The violation that takes least. */
  readonly tightest: WitnessRun;
  readonly property: PropertyId;
}

/** Where safety ends in the column of the answer; `null` if it does not end there. */
export function edgeOf({ plan, focus }: SafetyMap): BoundaryWitness | null {
  const boundary = safetyEnd(focus);
  if (boundary === undefined) return null;
  const { below, above } = boundary;
  const [safe, violated] = below.verdict === 'safe' ? [below, above] : [above, below];
  const exemplar = (at: number): WitnessRun => ({ at, cell: cellAt(plan, focus.at, at) });
  const tightest = exemplar(violated.at);
  const { property } = tightest.cell;
  if (property === null) return null;
  return { x: focus.at, boundary, deepestSafe: exemplar(safe.at), tightest, property };
}

/** How many cells the theory calls as the simulator found them. */
export function agreementOf(columns: readonly Column[]): { readonly agree: number; readonly cells: number } {
  const cells = columns.reduce((sum, { measured }) => sum + measured.length, 0);
  const agree = columns.reduce(
    (sum, { measured, computed }) => sum + measured.filter((verdict, i) => verdict === computed[i]).length,
    0,
  );
  return { agree, cells };
}
