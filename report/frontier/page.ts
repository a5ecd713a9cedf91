import {
  type Axis,
  agreementOf,
  computedCrossings,
  edgeOf,
  PARAMETERS,
  type SafetyMap,
} from '../../search/frontier/index.js';
import { escaped } from '../../text/escaped.js';
import { lookCss } from '../../text/look.js';
import type { PageAssets } from './assets.js';
import { AXIS_WORDS, frontierSentence, settingWords, theorySentence, valueWords } from './phrases.js';

/** A command that shows one of the two runs at the edge. */
export interface EdgeCommand {
  readonly title: string;
  readonly command: string;
}

/** The map as one HTML file that needs nothing else: chart, answer, and all edges as a table. */
export function frontierPage(frontier: SafetyMap, commands: readonly EdgeCommand[], assets: PageAssets): string {
  const { plan, columns, interrupted } = frontier;
  const { agree, cells } = agreementOf(columns);
  const answer = frontierSentence(frontier);
  const title = `${AXIS_WORDS[plan.y.name]} against ${AXIS_WORDS[plan.x.name]}`;
  const partly = interrupted
    ? `<p>Interrupted: ${columns.length} of ${plan.x.values.length} columns were measured.</p>`
    : '';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Lockstep: ${escaped(title)}</title>
<style>${lookCss()}${assets.libraryStyle}${STYLE}</style>
</head>
<body>
<main>
<h1>Where the lock is safe: ${escaped(title)}</h1>
<p class="answer">${escaped(answer)}</p>
<p>${escaped(theorySentence(frontier, edgeOf(frontier), agree, cells))}</p>
${partly}
<div id="chart" role="img" aria-label="${escaped(`Map of ${title}. ${answer} The table below has every edge.`)}"></div>
<ul class="key">
<li><span class="swatch safe"></span> safe</li>
<li><span class="swatch violated"></span> violated</li>
<li><span class="swatch unavailable"></span> unavailable</li>
<li><span class="swatch dashes"></span> edge by the theory</li>
<li><span class="swatch dot"></span> measured edge</li>
</ul>
<p>Each cell is a configuration under its optimal adversary, run in the simulator: ${escaped(settingWords(plan))}. Nodes
expire keys to the microsecond, so that no real key lives shorter. Edges are found by bisection, to
${escaped(valueWords(plan.y.name, PARAMETERS[plan.y.name].grain))}.</p>
${commandList(commands)}
<h2>Edges</h2>
${edgeTable(frontier)}
</main>
<script type="application/json" id="frontier">${dataOf(frontier)}</script>
<script>${assets.library}</script>
<script>${assets.script}</script>
</body>
</html>
`;
}

function commandList(commands: readonly EdgeCommand[]): string {
  if (commands.length === 0) return '';
  const items = commands.map(
    ({ title, command }) => `<dt>${escaped(title)}</dt><dd><code>${escaped(command)}</code></dd>`,
  );
  return `<dl>\n${items.join('\n')}\n</dl>`;
}

function edgeTable({ plan, columns }: SafetyMap): string {
  const say = (value: number): string => valueWords(plan.y.name, value);
  const rows = columns.flatMap(({ at, boundaries }) =>
    boundaries.map(({ below, above, computed }) => [
      valueWords(plan.x.name, at),
      `${below.verdict} up to ${say(below.at)}`,
      `${above.verdict} from ${say(above.at)}`,
      computed === null ? 'no such edge' : say(Math.round(computed * 1000) / 1000),
    ]),
  );
  if (rows.length === 0) return '<p>The verdict is the same along every column.</p>';
  const heads = [AXIS_WORDS[plan.x.name], 'below', 'above', 'theory'];
  const head = heads.map((it) => `<th scope="col">${escaped(it)}</th>`).join('');
  const body = rows.map((cells) => `<tr>${cells.map((it) => `<td>${escaped(it)}</td>`).join('')}</tr>`);
  return `<div class="scroll" role="region" tabindex="0" aria-label="Edges"><table><thead><tr>${head}</tr></thead>\n<tbody>${body.join('\n')}</tbody></table></div>`;
}

/** What the script draws. Lines of it are by their place from below: the first edge of each column, the second, … */
function dataOf(frontier: SafetyMap): string {
  const { plan, columns } = frontier;
  const axis = ({ name, values }: Axis): object => ({ title: AXIS_WORDS[name], unit: PARAMETERS[name].unit, values });
  const x = { ...plan.x, values: columns.map(({ at }) => at) };
  return JSON.stringify({
    x: axis(x),
    y: axis(plan.y),
    cells: columns.map(({ measured }) => measured),
    edges: byPlace(columns.map(({ boundaries }) => boundaries.map(({ below, above }) => (below.at + above.at) / 2))),
    curves: byPlace(columns.map(({ at }) => computedCrossings(plan, at))),
  }).replaceAll('<', '\\u003c');
}

function byPlace(lists: readonly (readonly number[])[]): (number | null)[][] {
  const most = Math.max(0, ...lists.map((it) => it.length));
  return Array.from({ length: most }, (_, place) => lists.map((it) => it[place] ?? null));
}

const STYLE = `
body { margin: 0; background: var(--paper); color: var(--ink); font: var(--size-3)/1.5 var(--font); }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; line-height: 1.25; }
h2 { font-size: 1.1rem; }
.answer { font-size: 1.15rem; font-weight: 600; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; list-style: none; padding: 0; }
.swatch { display: inline-block; width: 1.4rem; height: .9rem; vertical-align: -.1rem; border: 1px solid var(--soft); }
.swatch.safe { background: var(--good-fill); }
.swatch.violated { background: repeating-linear-gradient(135deg, var(--bad-fill) 0 4px, var(--soft) 4px 5px); }
.swatch.unavailable { background: radial-gradient(var(--soft) 1.2px, transparent 1.5px) 0 0 / 6px 6px var(--none-fill); }
.swatch.dashes { border: 0; height: 0; border-top: 2px dashed var(--accent); vertical-align: .25rem; }
.swatch.dot { width: .5rem; height: .5rem; border-radius: 50%; background: var(--ink); vertical-align: .05rem; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); }
.u-legend { font-size: .9rem; text-align: left; }
.u-legend .u-marker { display: none; }
@media print { main { max-width: none; } }
`;
