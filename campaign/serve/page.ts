import { createHash } from 'node:crypto';
import { escaped } from '../../text/escaped.js';
import { formatCount, plural } from '../../text/format.js';
import { lookCss } from '../../text/look.js';
import { perMillionWords, rangesDone, totalOf, violatingRuns } from '../part.js';
import type { CampaignState } from '../queue/index.js';
import { CampaignRanges } from '../spec.js';
import { chartSvg } from './chart.js';

const SCRIPT = `
const main = document.querySelector('main');
const told = document.querySelector('#told');
setInterval(async () => {
  try {
    const answer = await fetch('/progress');
    const text = await answer.text();
    told.textContent = answer.ok ? '' : 'The server of the queue does not answer: ' + text;
    if (answer.ok) main.innerHTML = text;
  } catch {
    told.textContent = 'This page is no longer served.';
  }
}, 2000);
`;
/** For the page's policy: no other script runs on it. */
export const SCRIPT_HASH: string = `sha256-${createHash('sha256').update(SCRIPT).digest('base64')}`;

const STYLE = `
${lookCss()}
a { color: var(--accent); }
body { max-width: 60rem; margin: var(--space-5) auto; padding: 0 var(--space-4); background: var(--paper); color: var(--ink); font: var(--size-3)/1.5 var(--font); }
progress { width: 100%; height: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem 1rem .25rem 0; text-align: right; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; }
code { overflow-wrap: anywhere; }
#told { font-weight: bold; }
`;

/** The whole page. */
export function pageHtml(name: string, state: CampaignState): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(name)} – Lockstep campaign</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Campaign ${escaped(name)}</h1>
<p id="told" role="status"></p>
<main>${progressHtml(state)}</main>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

/** What changes. */
export function progressHtml(state: CampaignState): string {
  const { part, isOver, leftS, workers, runsPerSecond, elapsedS } = state;
  const total = totalOf(part);
  const done = rangesDone(part);
  const { count } = new CampaignRanges(part.spec);
  const left = leftS === null ? '' : `, about ${timeWords(leftS)} left`;
  const pace = `${plural(workers, 'machine')}, ${formatCount(Math.round(runsPerSecond))} schedules/s${left}`;
  return `
<progress max="${count}" value="${done}" aria-label="ranges done"></progress>
<p><b>${isOver ? 'Over' : 'At work'}</b>: ${formatCount(done)} of ${plural(count, 'range')} and
${plural(total.runs, 'schedule')} in ${timeWords(elapsedS)}${isOver ? '' : `; ${pace}`}.</p>
${troubleHtml(state)}
${searchesHtml(state)}
<h2>Violations per million schedules</h2>
${chartSvg(
  part.spec.searches.map((it) => it.name),
  state.pace,
)}
<h2>${plural(part.failures.length, 'shape')} of failure</h2>
${failuresHtml(state)}
<p>Hash of all schedules <code>${total.hash}</code>, engine <code>${escaped(part.spec.engine)}</code>.
The <a href="/state.json">same as JSON</a>.</p>
`;
}

function searchesHtml({ part }: CampaignState): string {
  const rows = part.spec.searches.map(({ name, weight }, i) => {
    const tally = part.tallies[i] ?? totalOf(part);
    const violating = violatingRuns(tally);
    const rate = perMillionWords(violating, tally.runs);
    const cells = [formatCount(weight), formatCount(tally.runs), formatCount(violating), rate, formatCount(tally.near)];
    return `<tr><td>${escaped(name)}</td>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
  });
  const heads = ['search', 'weight', 'schedules', 'violations', 'per million', 'near'];
  return (
    `<table><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join('')}</tr></thead>` +
    `<tbody>${rows.join('')}</tbody></table>`
  );
}

function failuresHtml({ part }: CampaignState): string {
  if (part.failures.length === 0) return '<p>None so far.</p>';
  const items = part.failures.map(
    ({ shape, run, search, events }, i) =>
      `<li><code>${escaped(shape)}</code><br>${plural(events, 'event')}, first in run ${formatCount(run + 1)} of ` +
      `${escaped(part.spec.searches[search]?.name ?? '')}: <a href="/failures/${i}.txt">report</a>, ` +
      `<a href="/failures/${i}.json" download>schedule</a></li>`,
  );
  return `<ol>${items.join('')}</ol>`;
}

function troubleHtml({ failed, mismatches, unkept }: CampaignState): string {
  const lines = [
    ...failed.map(({ index, why }) => `Range ${index} could not be made: ${escaped(why)}`),
    ...(mismatches > 0 ? [`${plural(mismatches, 'range')} came to different things when made twice.`] : []),
    ...(unkept > 0 ? [`${plural(unkept, 'failure')} of further shapes not kept.`] : []),
  ];
  return lines.map((line) => `<p role="alert">${line}</p>`).join('');
}

function timeWords(seconds: number): string {
  const whole = Math.ceil(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const [hours = 0, minutes = 0, rest = 0] = parts;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${rest} s` : `${rest} s`;
}
