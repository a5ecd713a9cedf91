import { escaped } from '../../text/escaped.js';
import { DOCUMENT_CSS, htmlPage } from '../page-shell.js';
import { MAP_CSS } from '../safety-map/map-picture.js';
import { mapSection, type PageSection } from '../safety-map/map-section.js';
import { BOUNDS_CSS, boundsChart } from './bounds-chart.js';
import { CURVE_CSS } from './curve-chart.js';
import { ESTIMATES_CSS } from './estimates-chart.js';
import type { Change, Command, LinesOfFile, MapOfPass, PassReport } from './pass-report.js';
import { factsHtml, sectionHtml } from './sections.js';

const MARKS: Readonly<Record<PassReport['tone'], string>> = { good: '✓ ', open: '? ', bad: '✗ ', plain: '' };

/**
 * The page for a system that nothing was found against, as one HTML file: for those who have to show it to somebody. Verdict,
 * one sentence and how far each bound is come first; what was tried and what was not follow. It asks the network for nothing.
 */
export function passPage(report: PassReport): string {
  const { subject, verdict, tone, sentence, map } = report;
  const section = map === null ? null : mapOf(map);
  return htmlPage({
    title: `${verdict}: ${subject}`,
    css: `${DOCUMENT_CSS}\n${BOUNDS_CSS}\n${MAP_CSS}\n${ESTIMATES_CSS}\n${CURVE_CSS}\n${CSS}`,
    scripts: section === null || section.script === '' ? [] : [section.script],
    body: `<main>
<header>
<p class="id">${escaped(subject)}</p>
<h1 class="${tone}" data-verdict="${escaped(verdict)}">${MARKS[tone]}${escaped(verdict)}</h1>
<p class="sentence">${escaped(sentence)}</p>
</header>
${report.bounds.length === 0 ? '' : `<section><h2>How far each bound is</h2>${boundsChart(report.bounds)}</section>`}
${section === null ? '' : `<section><h2>Where the lock is safe</h2>${section.html}</section>`}
${(report.sections ?? []).map(sectionHtml).join('\n')}
${report.lines.length === 0 ? '' : `<section><h2>Lines for your files</h2>${report.lines.map(linesOf).join('\n')}</section>`}
<div class="pair">
${factsHtml('What was tried', report.tried)}
${factsHtml('What was not tried', report.notTried)}
</div>
${factsHtml('Near misses', report.nearMisses)}
${changes(report.changes)}
${factsHtml('Configuration', report.configuration)}
${report.meaning.length === 0 ? '' : `<section><h2>What this means</h2>${report.meaning.map((it) => `<p>${escaped(it)}</p>`).join('')}</section>`}
${commands(report.commands)}
</main>`,
  });
}

function mapOf({ map, here, sentence }: MapOfPass): PageSection {
  const section = mapSection(map, here, sentence);
  return { ...section, html: `<p>${escaped(sentence)}</p>\n${section.html}` };
}

function changes(list: readonly Change[]): string {
  if (list.length === 0) return '';
  const rows = list.map(({ fear, change, command }) => {
    const shown = command === null ? '' : `<br><code>${escaped(command)}</code>`;
    return `<tr><th scope="row">${escaped(fear)}</th><td>${escaped(change)}${shown}</td></tr>`;
  });
  return `<section><h2>If you fear more</h2><table><thead><tr><th scope="col">what might happen</th><th scope="col">what to change</th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table></section>`;
}

function linesOf({ file, why, lines }: LinesOfFile): string {
  return `<h3>${escaped(file)}</h3><p>${escaped(why)}</p><pre role="region" tabindex="0" aria-label="${escaped(file)}">${escaped(lines.join('\n'))}</pre>`;
}

function commands(list: readonly Command[]): string {
  if (list.length === 0) return '';
  const items = list.map(({ title, command }) => `<dt>${escaped(title)}</dt><dd><code>${escaped(command)}</code></dd>`);
  return `<section><h2>See it again</h2><dl>${items.join('\n')}</dl></section>`;
}

const CSS = `
.pair{display:grid;grid-template-columns:1fr 1fr;column-gap:var(--space-5)}
section table{width:100%}section tbody th{width:12rem;padding-inline-start:0}
h1.open,h1.plain{color:var(--ink)}
@media(max-width:760px){.pair{grid-template-columns:1fr}section tbody th{width:34%}}
`.trim();
