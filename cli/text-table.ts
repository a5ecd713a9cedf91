import Table from 'cli-table3';
import { printable } from '../text/printable.js';

/** No column of words gets narrower, characters. */
const LEAST_COLUMN = 12;
const GAP = 2;
const LONGEST_CELL = 400;

/**
 * A table without lines, for a terminal; columns from `numbersFrom` on are aligned to the right. Where it is wider than
 * `width`, the words of its widest columns go on in further lines.
 */
export function textTable(
  head: readonly string[],
  given: readonly (readonly string[])[],
  numbersFrom: number = head.length,
  width: number = Number.POSITIVE_INFINITY,
): string {
  const rows = given.map((row) => row.map((cell) => printable(cell, LONGEST_CELL)));
  const widths = fittingWidths([head, ...rows], numbersFrom, width);
  const none = { top: '', 'top-mid': '', 'top-left': '', 'top-right': '' };
  const table = new Table({
    head: [...head],
    colAligns: head.map((_, column) => (column < numbersFrom ? 'left' : 'right')),
    chars: {
      ...none,
      bottom: '',
      'bottom-mid': '',
      'bottom-left': '',
      'bottom-right': '',
      left: '',
      'left-mid': '',
      mid: '',
      'mid-mid': '',
      right: '',
      'right-mid': '',
      middle: '  ',
    },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  for (const row of rows) table.push(row.map((cell, i) => folded(cell, widths[i])));
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** The least width of each column whose cells have to be folded; nothing for the others. */
function fittingWidths(
  lines: readonly (readonly string[])[],
  numbersFrom: number,
  width: number,
): (number | undefined)[] {
  const columns = lines[0]?.length ?? 0;
  const widths = Array.from({ length: columns }, (_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  const fitting: (number | undefined)[] = widths.map(() => undefined);
  const over = (): number => widths.reduce((sum, it) => sum + it, GAP * (columns - 1)) - width;
  while (over() > 0) {
    const widest = Math.max(...widths.slice(0, numbersFrom));
    const at = widths.indexOf(widest);
    if (widest <= LEAST_COLUMN) break;
    // As far as is needed, but not below the next widest, so that no column bears it all.
    const next = Math.max(LEAST_COLUMN, ...widths.slice(0, numbersFrom).filter((it) => it < widest));
    widths[at] = Math.max(LEAST_COLUMN, Math.min(widest - 1, Math.max(next, widest - over())));
    fitting[at] = widths[at];
  }
  return fitting;
}

function folded(cell: string, width: number | undefined): string {
  if (width === undefined || cell.length <= width) return cell;
  // Whole words as long as they fit; a word may be longer than its column.
  const lines = cell.match(new RegExp(`.{1,${width}}(?: +|$)|.{1,${width}}`, 'g')) ?? [];
  return lines.map((line) => line.trimEnd()).join('\n');
}
