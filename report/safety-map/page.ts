import { agreementOf, edgeOf, PARAMETERS, type SafetyMap } from '../../search/safety-map/index.js';
import { escaped } from '../../text/escaped.js';
import { DOCUMENT_CSS, htmlPage } from '../page-shell.js';
import { type Here, MAP_CSS } from './map-picture.js';
import { mapSection } from './map-section.js';
import { AXIS_WORDS, safetyMapSentence, settingWords, theorySentence, valueWords } from './phrases.js';

/** A command that shows one of the two runs at the edge. */
export interface EdgeCommand {
  readonly title: string;
  readonly command: string;
}

/** The map as one HTML file that needs nothing else: answer, map, and all edges as a table. */
export function safetyMapPage(map: SafetyMap, commands: readonly EdgeCommand[], here: Here | null = null): string {
  const { plan, columns, interrupted } = map;
  const { agree, cells } = agreementOf(columns);
  const answer = safetyMapSentence(map);
  const title = `${AXIS_WORDS[plan.y.name]} against ${AXIS_WORDS[plan.x.name]}`;
  const partly = interrupted
    ? `<p>Interrupted: ${columns.length} of ${plan.x.values.length} columns were measured.</p>`
    : '';
  const section = mapSection(map, here, `Map of ${title}. ${answer} The table below has every edge.`);
  return htmlPage({
    title: `Lockstep: ${title}`,
    css: `${DOCUMENT_CSS}\n${MAP_CSS}\nh1{font-size:20px;max-width:50rem}`,
    scripts: section.script === '' ? [] : [section.script],
    body: `<main>
<p class="id">Where the lock is safe · ${escaped(title)}</p>
<h1>${escaped(answer)}</h1>
${section.html}
<p>${escaped(sizeSentence(map))} ${escaped(theorySentence(map, edgeOf(map), agree, cells))}</p>
${partly}
<p class="dim">Each cell is a configuration under its optimal adversary, run in the simulator: ${escaped(settingWords(plan))}. Nodes
expire keys to the microsecond, so that no real key lives shorter. Edges are found by bisection, to
${escaped(valueWords(plan.y.name, PARAMETERS[plan.y.name].grain))}.</p>
${commandList(commands)}
<h2>Edges</h2>
${edgeTable(map)}
</main>`,
  });
}

/** How much of the map is violated, and that this is how far the axes reach rather than how bad the lock is. */
function sizeSentence({ plan, columns }: SafetyMap): string {
  const all = columns.flatMap(({ measured }) => measured);
  const violated = all.filter((it) => it === 'violated').length;
  if (violated === 0 || all.length === 0) return '';
  const share = Math.round((100 * violated) / all.length);
  return (
    `${share} % of the map is beyond the edge: that says how far its axes reach, not how likely a violation is. What counts is ` +
    `the distance of your own ${AXIS_WORDS[plan.y.name]} from the edge.`
  );
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
