import { formatDurationMs } from '../scenarios/index.js';
import { truncate } from '../text/format.js';
import { printable } from '../text/printable.js';
import type { Hold } from './holds.js';
import type { Painter } from './painter.js';
import type { Row } from './row.js';

/** How wide reports are where they have a limit. */
export const WIDTH = 88;

/** Where they have none: a terminal folds a long line, but nobody reads one of thousands of characters. */
const LONGEST_ROW = 400;

const INDENT = 2;
const HELD_WIDTH = 6;

/** How rows are set out. */
interface TableOptions {
  /** The row to mark, and with what. */
  readonly mark: { readonly row: Row; readonly text: string } | null;
  /** Clients that have a column, if they ever held a lock. */
  readonly columns: readonly string[];
  /** Longer lines are cut; `null` for no limit. */
  readonly width: number | null;
  readonly paint: Painter;
}

/** Lays rows out: time, who, what, and for each client that ever held a lock whether it does. */
export function tableLines(rows: readonly Row[], claims: readonly Hold[], options: TableOptions): string[] {
  const { paint, width } = options;
  const texts = rows.map((row) => printable(row.what, LONGEST_ROW));
  const columns = options.columns.filter((id) => claims.some((claim) => claim.client === id));
  const times = alignPoints(rows.map((row) => formatDurationMs(row.atUs)));
  const timeWidth = Math.max(...times.map((time) => time.length), 6);
  const whoWidth = Math.max(...rows.map((row) => row.who.length), 3);
  const mark = options.mark === null ? '' : `  ← ${options.mark.text}`;
  const used = INDENT + timeWidth + 2 + whoWidth + 2 + columns.length * HELD_WIDTH + mark.length;
  const longest = Math.max(...texts.map((text) => text.length), 4);
  const whatWidth = Math.min(longest + 1, width === null ? longest + 1 : width - used);
  const line = (time: string, who: string, what: string): string =>
    `${' '.repeat(INDENT)}${time.padStart(timeWidth)}  ${who.padEnd(whoWidth)}  ${truncate(what, whatWidth).padEnd(whatWidth)}`;
  const unpainted = line('t/ms', 'who', 'what') + columns.map((id) => cell(id)).join('');
  const body = rows.map((row, index) => {
    const isMarked = options.mark?.row === row;
    const cells = columns.map((id, column) => {
      const held = isHeld(claims, id, row);
      const text = cell(held ? 'HELD' : '·');
      // Nothing that cannot be seen at the end of a line.
      const shown = column === columns.length - 1 && !isMarked ? text.trimEnd() : text;
      return held ? paint.strong(shown) : paint.dim(shown);
    });
    const start = line(times[index] ?? '', row.who, texts[index] ?? '');
    return `${start}${cells.join('')}${isMarked ? paint.bad(mark) : ''}`.trimEnd();
  });
  return [paint.dim(unpainted.trimEnd()), ...body];
}

function isHeld(claims: readonly Hold[], client: string, row: Row): boolean {
  return claims.some((claim) => claim.client === client && claim.seq <= row.seq && row.atUs < claim.endUs);
}

/** Centred, so that a dot stands below the middle of HELD. */
function cell(text: string): string {
  const before = Math.ceil((HELD_WIDTH - text.length) / 2);
  return `${' '.repeat(before)}${text}`.padEnd(HELD_WIDTH);
}

/** Pads numbers on the right so that their decimal points are in one column. */
function alignPoints(numbers: readonly string[]): string[] {
  const decimals = numbers.map((text) => (text.includes('.') ? text.length - text.indexOf('.') : 0));
  const most = Math.max(...decimals, 0);
  return numbers.map((text, index) => text + ' '.repeat(most - (decimals[index] ?? 0)));
}
