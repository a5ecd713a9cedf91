import { escaped } from '../../text/escaped.js';
import type { EstimateRow } from './pass-report.js';

/** More labels than these do not fit beside each other. */
const MOST_LABELS = 4;
/** Room at both ends of the axis, percent. */
const ROOM = 6;

/** Estimates with their intervals, one below the other on one logarithmic axis, with the figures beside it. */
export function estimatesChart(rows: readonly EstimateRow[], label: string): string {
  const axis = axisOf(rows);
  const ticks = ticksOf(axis).map(
    (power) => `<text x="${percent(axis, 10 ** power)}" y="12" text-anchor="middle">${powerWords(power)}</text>`,
  );
  const body = rows.map((it) => {
    const { name, text, note, command } = it;
    const more = note === '' ? '' : `<br><span class="dim">${escaped(note)}</span>`;
    const shown = command === null ? '' : `<br><code>${escaped(command)}</code>`;
    return `<tr><th scope="row">${escaped(name)}</th><td class="bar">${barOf(it, axis)}</td><td><strong>${escaped(text)}</strong>${more}${shown}</td></tr>`;
  });
  return `<div class="scroll" role="region" tabindex="0" aria-label="${escaped(label)}"><table class="bounds estimates"><thead><tr><th scope="col">what</th><th scope="col"><span class="hidden">a year, from few to many</span><svg width="100%" height="16" aria-hidden="true">${ticks.join('')}</svg></th><th scope="col">a year, with its 95 % interval</th></tr></thead>
<tbody>${body.join('\n')}</tbody></table></div>`;
}

/** Powers of ten that it begins and ends with. */
interface Axis {
  readonly low: number;
  readonly high: number;
}

function axisOf(rows: readonly EstimateRow[]): Axis {
  const ends = rows.flatMap(({ value, low, high }) => [value, low, high]).filter((it) => it > 0);
  if (ends.length === 0) return { low: -1, high: 0 };
  // Of an interval that begins at nothing, only its end counts.
  const low = Math.floor(Math.log10(Math.min(...ends)));
  return { low, high: Math.max(low + 1, Math.ceil(Math.log10(Math.max(...ends)))) };
}

function ticksOf({ low, high }: Axis): number[] {
  const step = Math.ceil((high - low) / MOST_LABELS);
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
}

function powerWords(power: number): string {
  return power >= -3 && power <= 3 ? String(Number((10 ** power).toPrecision(1))) : `1e${power}`;
}

function percent({ low, high }: Axis, value: number): string {
  const share = value <= 0 ? 0 : (Math.log10(value) - low) / (high - low);
  return `${(ROOM + Math.min(1, Math.max(0, share)) * (100 - 2 * ROOM)).toFixed(1)}%`;
}

function barOf({ value, low, high }: EstimateRow, axis: Axis): string {
  const [from, to] = [percent(axis, low), percent(axis, high)];
  const dot = value > 0 ? `<circle class="estimate" cx="${percent(axis, value)}" cy="12" r="5"/>` : '';
  return (
    `<svg width="100%" height="24" aria-hidden="true"><rect class="axis" x="${ROOM}%" y="11" width="${100 - 2 * ROOM}%" height="2"/>` +
    `<line class="interval" x1="${from}" x2="${to}" y1="12" y2="12"/>${dot}</svg>`
  );
}

/** The looks of these charts. */
export const ESTIMATES_CSS: string = `
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.estimates text{fill:var(--soft);font:var(--size-2) var(--font)}.estimates .bar{width:34%}
.axis{fill:var(--line)}.interval{stroke:var(--accent);stroke-width:6;stroke-opacity:.45}.estimate{fill:var(--accent);stroke:var(--paper);stroke-width:2}
`.trim();
