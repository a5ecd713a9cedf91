import { escaped } from '../../text/escaped.js';
import type { Curve } from './pass-report.js';

const HEIGHT = 200;
const TOP = 34;
const BOTTOM = 26;
/** Room at both ends of the axis, percent. */
const ROOM = 9;

/** One thing against another as measured points, each with its figures, joined by lines; and the same as a table. */
export function curveChart({ x, y, points }: Curve, label: string): string {
  const across = scale(points.map((it) => it.x));
  const up = scale(points.map((it) => it.y));
  const at = points.map((it) => ({
    ...it,
    cx: `${(ROOM + across(it.x) * (100 - 2 * ROOM)).toFixed(1)}%`,
    cy: Math.round(HEIGHT - BOTTOM - up(it.y) * (HEIGHT - TOP - BOTTOM)),
  }));
  const lines = at.slice(1).map((to, i) => {
    const from = at[i] ?? to;
    return `<line class="tradeoff" x1="${from.cx}" y1="${from.cy}" x2="${to.cx}" y2="${to.cy}"/>`;
  });
  const marks = at.map(
    ({ cx, cy, xText, yText, isHere }) =>
      `<circle class="estimate${isHere ? ' here' : ''}" cx="${cx}" cy="${cy}" r="${isHere ? 7 : 5}"/>` +
      `<text x="${cx}" y="${cy - 12}" text-anchor="middle">${escaped(yText)}</text>` +
      `<text class="soft" x="${cx}" y="${HEIGHT - 6}" text-anchor="middle">${escaped(xText)}</text>`,
  );
  const rows = points.map(
    ({ xText, yText, note, isHere }) =>
      `<tr><th scope="row">${escaped(xText)}${isHere ? ' (yours)' : ''}</th><td>${escaped(yText)}</td><td>${escaped(note)}</td></tr>`,
  );
  return `<figure><svg class="curves" width="100%" height="${HEIGHT}" role="img" aria-label="${escaped(`${label}: ${y} for ${x}`)}">${lines.join('')}${marks.join('')}</svg>
<figcaption>${escaped(y)} (up), for ${escaped(x)} (across); the large point is yours</figcaption></figure>
<div class="scroll" role="region" tabindex="0" aria-label="${escaped(label)}"><table><thead><tr><th scope="col">${escaped(x)}</th><th scope="col">${escaped(y)}</th><th scope="col">with</th></tr></thead><tbody>${rows.join('\n')}</tbody></table></div>`;
}

/** From values to shares of their range. */
function scale(values: readonly number[]): (value: number) => number {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return (value) => (high === low ? 0.5 : (value - low) / (high - low));
}

/** The looks of these charts. */
export const CURVE_CSS: string = `
.curves{overflow:visible}.curves text{fill:var(--ink);font:var(--size-2) var(--font)}.curves .soft{fill:var(--soft)}
.tradeoff{stroke:var(--accent);stroke-width:2}.here{fill:var(--good)}
@media(max-width:600px){.curves text{font-size:11px}}
`.trim();
