import { formatDurationMs } from '../scenarios/index.js';
import { plural, truncate, wrap } from '../text/format.js';
import { type Aligned, compare, type Named, partingSentence } from './diff.js';
import { describeEvent } from './event-words.js';
import type { Painter } from './painter.js';
import type { Scene } from './picture/scene.js';
import { WIDTH } from './table.js';

/** Rows that are alike, ahead of the first that differ. */
const BEFORE = 3;
const MOST_ROWS = 24;
const INDENT = '  ';

/** Two runs side by side, aligned by cause: where they part, and what differs from there on. */
export function formatDiff(a: Named, b: Named, paint: Painter): string {
  const comparison = compare(a.scene, b.scene);
  const { rows, first } = comparison;
  const lines = wrap(partingSentence(comparison, a, b), WIDTH - INDENT.length).map((line) => INDENT + line);
  if (first < 0) return `${lines.join('\n')}\n`;
  const differing = rows.slice(first).filter(({ same }) => !same);
  const shown = [...rows.slice(Math.max(0, first - BEFORE), first), ...differing.slice(0, MOST_ROWS)];
  const times = shown.map((row) => formatDurationMs((row.a ?? row.b)?.atUs ?? 0));
  const width = Math.max(6, ...times.map(({ length }) => length));
  const half = Math.floor((WIDTH - INDENT.length - width - 10) / 2);
  const line = (time: string, who: string, left: string, right: string): string =>
    `${INDENT}${time.padStart(width)}  ${who.padEnd(4)}  ${truncate(left, half).padEnd(half)}  ${truncate(right, half)}`.trimEnd();
  lines.push('', paint.dim(line('t/ms', 'who', a.name, b.name)));
  for (const [index, row] of shown.entries()) {
    const text = line(
      times[index] ?? '',
      (row.a ?? row.b)?.process ?? '',
      side(row.a, a.scene),
      otherSide(row, b.scene),
    );
    lines.push(row.same ? paint.dim(text) : text);
  }
  const left = differing.length - MOST_ROWS;
  if (left > 0) lines.push(paint.dim(`${INDENT}… ${plural(left, 'more event')} that differ`));
  return `${lines.join('\n')}\n`;
}

function side(event: Aligned['a'], scene: Scene): string {
  return event === null ? '·' : describeEvent(event, scene);
}

function otherSide({ a, b, same }: Aligned, scene: Scene): string {
  if (same) return 'the same';
  const when = a !== null && b !== null && a.atUs !== b.atUs ? `at ${formatDurationMs(b.atUs)}: ` : '';
  return when + side(b, scene);
}
