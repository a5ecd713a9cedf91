import {
  type CellVerdict,
  computedCrossings,
  type ParameterName,
  type SafetyMap,
} from '../../search/safety-map/index.js';
import type { Painter } from '../painter.js';
import { AXIS_WORDS, valueWords } from './phrases.js';

/** One character for each verdict; different ones, since nothing is told by colour alone. */
const MARKS: Readonly<Record<CellVerdict, string>> = { safe: '·', violated: '×', unavailable: '○' };
/** A cell that the theory's curve goes through. */
const CURVE: Readonly<Record<CellVerdict, string>> = { safe: '─', violated: '┼', unavailable: '┴' };

const WIDEST_CELL = 6;
const LEAST_WIDTH = 40;

/** How many columns of cells fit into so many columns of characters. */
export function mostColumns(y: ParameterName, values: readonly number[], width: number): number {
  return Math.max(1, Math.max(LEAST_WIDTH, width) - labelWidth(y, values) - 4);
}

function labelWidth(name: ParameterName, values: readonly number[]): number {
  return Math.max(...values.map((value) => valueWords(name, value).length));
}

/** The map as lines of characters, greatest value on top, no line longer than `width` where the axes allow it. */
export function safetyMapLines(map: SafetyMap, width: number, paint: Painter): string[] {
  const { plan, columns } = map;
  const { x, y } = plan;
  const label = labelWidth(y.name, y.values);
  const room = mostColumns(y.name, y.values, width);
  const cell = Math.max(1, Math.min(WIDEST_CELL, Math.floor(room / Math.max(1, x.values.length))));
  const curves = columns.map((column) => rowsOfCurve(map, column.at));
  const rows = y.values.map((value, row) => {
    const cells = columns.map(({ measured }, i) => {
      const verdict = measured[row] ?? 'safe';
      const onCurve = curves[i]?.has(row) === true;
      return painted(verdict, onCurve, cell, paint);
    });
    return `  ${valueWords(y.name, value).padStart(label)} │${cells.join('')}`;
  });
  return [
    `  ${AXIS_WORDS[y.name]}`,
    ...rows.reverse(),
    `  ${''.padStart(label)} └${'─'.repeat(cell * x.values.length)}`,
    `  ${''.padStart(label)}  ${ticks(x.name, x.values, cell)}`,
    `  ${''.padStart(label)}  ${AXIS_WORDS[x.name]}`,
    '',
    `  ${MARKS.safe} safe   ${MARKS.violated} violated   ${MARKS.unavailable} unavailable   ` +
      `${CURVE.safe} ${CURVE.violated} ${CURVE.unavailable} where the theory puts the edge`,
  ];
}

function painted(verdict: CellVerdict, onCurve: boolean, width: number, paint: Painter): string {
  const mark = (onCurve ? CURVE : MARKS)[verdict];
  const text = onCurve ? mark.repeat(width) : mark.padStart(Math.ceil(width / 2)).padEnd(width);
  if (onCurve) return paint.strong(text);
  return verdict === 'violated' ? paint.bad(text) : verdict === 'safe' ? paint.good(text) : paint.dim(text);
}

/** The rows that are nearest to where the theory changes its mind. */
function rowsOfCurve({ plan }: SafetyMap, at: number): Set<number> {
  const { values } = plan.y;
  const nearest = (value: number): number =>
    values.reduce((best, it, i) => (Math.abs(it - value) < Math.abs((values[best] ?? 0) - value) ? i : best), 0);
  return new Set(computedCrossings(plan, at).map(nearest));
}

/** Labels below the first cell, the last one, and as many between as there is room for. */
function ticks(name: ParameterName, values: readonly number[], cell: number): string {
  const words = values.map((value) => valueWords(name, value));
  const last = words.length - 1;
  const atRight = cell * words.length - Math.max(cell, words[last]?.length ?? 0);
  const lastStart = last === 0 ? 0 : Math.max((words[0]?.length ?? 0) + 1, atRight);
  let line = '';
  for (const [i, text] of words.entries()) {
    const start = i === last ? lastStart : i * cell;
    const isFree = start >= line.length + (line === '' ? 0 : 3);
    const isEnd = i === 0 || i === last;
    if (isEnd || (isFree && start + text.length + 3 <= lastStart)) line = line.padEnd(start) + text;
  }
  return line;
}
