import { type CellVerdict, computedCrossings, type SafetyMap } from '../../search/safety-map/index.js';
import { escaped } from '../../text/escaped.js';
import { type AxisScale, axisScale, spread, stretchesOf } from './map-scale.js';
import { AXIS_WORDS, valueWords } from './phrases.js';

/** A configuration on a map: values of its two axes, in their units. */
export interface Here {
  readonly x: number;
  readonly y: number;
  /** What it is called at its mark. */
  readonly label: string;
}

const MOST_TICKS = 5;
const NUMBER_DIGITS = 2;

/**
 * The map as HTML: axes, areas with their names in them, the edge as it was measured and as the theory has it, and where the
 * reader is. Places are shares of its size, so that it fits any width; needs {@link MAP_CSS}.
 */
export function mapPicture(map: SafetyMap, here: Here | null, label: string): string {
  const { x, y } = map.plan;
  const across = axisScale(x, true);
  const up = axisScale(y, false);
  const xTicks = spread(x.values.length, MOST_TICKS).map((i) => x.values[i] ?? 0);
  const yTicks = spread(y.values.length, MOST_TICKS).map((i) => y.values[i] ?? 0);
  const xLabels = xTicks.map((it, i) => {
    const anchor = i === 0 ? 'start' : i === xTicks.length - 1 ? 'end' : 'middle';
    const at = i === 0 ? 0 : i === xTicks.length - 1 ? 100 : across.of(it);
    const more = i % 2 === 1 ? ' class="more"' : '';
    return `<text${more} x="${pct(at)}" y="16" text-anchor="${anchor}">${escaped(valueWords(x.name, it))}</text>`;
  });
  const yLabels = yTicks.map(
    (it) =>
      `<text x="100%" y="${pct(100 - up.of(it))}" dy="4" text-anchor="end">${escaped(valueWords(y.name, it))}</text>`,
  );
  return `<div class="map">
<p class="map-y dim">↑ ${escaped(AXIS_WORDS[y.name])}</p>
<svg class="ticks-y" aria-hidden="true">${yLabels.join('')}</svg>
<svg class="plot" role="img" aria-label="${escaped(label)}">${PATTERNS}${areas(map, across, up)}${edges(map, across, up)}${names(map, across, up)}${hereMark(here, across, up)}<g id="cell"></g></svg>
<svg class="ticks-x" aria-hidden="true">${xLabels.join('')}</svg>
<p class="map-x dim">${escaped(AXIS_WORDS[x.name])} →</p>
</div>`;
}

/** What the marks of a map stand for. */
export const MAP_LEGEND: string = `<ul class="key">
<li><svg width="22" height="14"><rect class="safe" width="22" height="14"/></svg> safe</li>
<li><svg width="22" height="14"><rect class="violated" width="22" height="14"/><rect class="over-violated" width="22" height="14"/></svg> violated</li>
<li><svg width="22" height="14"><rect class="unavailable" width="22" height="14"/><rect class="over-unavailable" width="22" height="14"/></svg> unavailable</li>
<li><svg width="22" height="14"><circle class="edge" cx="11" cy="7" r="3"/></svg> edge, measured</li>
<li><svg width="22" height="14"><path class="curve" d="M0 7H22"/></svg> edge, by the theory</li>
</ul>`;

const PATTERNS =
  '<defs><pattern id="slopes" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="stroke" d="M0 0V9"/></pattern>' +
  '<pattern id="specks" width="8" height="8" patternUnits="userSpaceOnUse"><circle class="speck" cx="4" cy="4" r="1"/></pattern></defs>';

function pct(share: number): string {
  return `${Number(share.toFixed(NUMBER_DIGITS))}%`;
}

function areas(map: SafetyMap, across: AxisScale, up: AxisScale): string {
  return stretchesOf(map)
    .map(({ column, verdict, from, to }) => {
      const [left = 0, right = 0] = [across.borders[column], across.borders[column + 1]];
      const [low = 0, high = 0] = [up.borders[from], up.borders[to]];
      // Below its mark: an edge may go through it.
      const place = `x="${pct(left)}" y="${pct(100 - high)}" width="${pct(right - left + 0.05)}" height="${pct(high - low + 0.05)}"`;
      const over = verdict === 'safe' ? '' : `<rect class="over-${verdict}" ${place}/>`;
      return `<rect class="${verdict}" ${place}/>${over}`;
    })
    .join('');
}

function edges({ plan, columns }: SafetyMap, across: AxisScale, up: AxisScale): string {
  const curves = byPlace(columns.map(({ at }) => computedCrossings(plan, at).map((y) => [at, y] as const)));
  const lines = curves.map((points) => {
    const path = points.map(([x, y]) => `${across.of(x).toFixed(2)},${(100 - up.of(y)).toFixed(2)}`).join(' ');
    return `<svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none"><polyline class="curve" points="${path}"/></svg>`;
  });
  const dots = columns.flatMap(({ at, boundaries }) =>
    boundaries.map(({ below, above }) => {
      const y = up.of((below.at + above.at) / 2);
      return `<circle class="edge" cx="${pct(across.of(at))}" cy="${pct(100 - y)}" r="2"/>`;
    }),
  );
  return lines.join('') + dots.join('');
}

/** The first edge of each column, the second, and so on: what one line joins. */
function byPlace<T>(lists: readonly (readonly T[])[]): T[][] {
  const most = Math.max(0, ...lists.map((it) => it.length));
  return Array.from({ length: most }, (_, place) => lists.flatMap((it) => it.slice(place, place + 1)));
}

/** Names in the areas, each in the middle of the tallest stretch of its verdict, so that no colour has to be looked up. */
function names(map: SafetyMap, across: AxisScale, up: AxisScale): string {
  const all = stretchesOf(map);
  const words: Readonly<Record<CellVerdict, string>> = {
    safe: 'safe',
    violated: 'can be violated',
    unavailable: 'cannot be had',
  };
  return (['safe', 'violated', 'unavailable'] as const)
    .map((verdict) => {
      const own = all.filter((it) => it.verdict === verdict);
      const tallest = Math.max(0, ...own.map((it) => it.to - it.from));
      const best = own.filter((it) => it.to - it.from === tallest);
      const middle = best[Math.floor(best.length / 2)];
      if (middle === undefined) return '';
      const x = ((across.borders[middle.column] ?? 0) + (across.borders[middle.column + 1] ?? 0)) / 2;
      const y = ((up.borders[middle.from] ?? 0) + (up.borders[middle.to] ?? 0)) / 2;
      return `<text class="area" x="${pct(Math.min(82, Math.max(18, x)))}" y="${pct(100 - y)}" dy="5" text-anchor="middle">${words[verdict]}</text>`;
    })
    .join('');
}

function hereMark(here: Here | null, across: AxisScale, up: AxisScale): string {
  if (here === null || !across.isInside(here.x) || !up.isInside(here.y)) return '';
  const [x, y] = [across.of(here.x), 100 - up.of(here.y)];
  const isRight = x > 60;
  const place = `x="${pct(x)}" dx="${isRight ? -12 : 12}" y="${pct(y)}" dy="${y > 85 ? -12 : 24}"`;
  return (
    `<g class="here"><circle class="halo" cx="${pct(x)}" cy="${pct(y)}" r="9"/><circle class="dot" cx="${pct(x)}" cy="${pct(y)}" r="5"/>` +
    `<text ${place} text-anchor="${isRight ? 'end' : 'start'}">${escaped(here.label)}</text></g>`
  );
}

/** The looks of a map. */
export const MAP_CSS: string = `
.map{display:grid;grid-template-columns:minmax(4.5rem,max-content) 1fr;column-gap:var(--space-2)}
.map p{margin:0;max-width:none}.map-y{grid-column:1/3}.map-x{grid-column:2;text-align:end}
.map svg{overflow:visible;max-width:none;font:var(--size-2) var(--font);fill:var(--ink)}
.ticks-y{width:4.5rem;height:24rem}.plot{width:100%;height:24rem;border:1px solid var(--line)}
.ticks-x{grid-column:2;width:100%;height:22px}
.plot rect{shape-rendering:crispEdges}.safe{fill:var(--good-fill)}.violated{fill:var(--bad-fill)}.unavailable{fill:var(--none-fill)}
.over-violated{fill:url(#slopes)}.over-unavailable{fill:url(#specks)}
.stroke{stroke:var(--bad);stroke-opacity:.28;stroke-width:1}.speck{fill:var(--soft)}
.curve{fill:none;stroke:var(--accent);stroke-width:2;stroke-dasharray:6 4;vector-effect:non-scaling-stroke}
.edge{fill:var(--ink)}
.area{font-size:var(--size-3);font-weight:600;paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
.here .dot{fill:var(--ink);stroke:var(--paper);stroke-width:1.5}.here .halo{fill:none;stroke:var(--ink);stroke-width:1.5}
.here text{font-weight:700;paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
#cell rect{fill:none;stroke:var(--ink);stroke-width:2}
.key{display:flex;flex-wrap:wrap;gap:var(--space-1) var(--space-4);list-style:none;padding:0;margin:var(--space-2) 0;font-size:var(--size-2)}
.key li{display:flex;align-items:center;gap:6px}
.readout{display:grid;grid-template-columns:max-content minmax(8rem,24rem) 1fr;gap:var(--space-1) var(--space-3);align-items:center;margin:var(--space-3) 0;font-size:var(--size-2)}
.readout output{grid-column:1/4;font-weight:600}
.readout input{width:100%;accent-color:var(--accent)}
@media(max-width:600px){.ticks-y,.plot{height:17rem}.more{display:none}.readout{grid-template-columns:1fr 5.5rem}.readout output,.readout label{grid-column:1/3}}
@media print{.readout{display:none}}
`.trim();
