import { escaped } from '../../text/escaped.js';
import { curveChart } from './curve-chart.js';
import { estimatesChart } from './estimates-chart.js';
import type { Fact, PassSection } from './pass-report.js';

/** A part of a page that a command adds, by its kind. */
export function sectionHtml(section: PassSection): string {
  const { title, kind } = section;
  if (kind === 'facts') return factsHtml(title, section.facts);
  const chart = kind === 'curve' ? curveChart(section.curve, title) : estimatesChart(section.rows, title);
  const sentence = section.sentence === '' ? '' : `<p>${escaped(section.sentence)}</p>`;
  return `<section><h2>${escaped(title)}</h2>${sentence}${chart}</section>`;
}

/** Rows of a name and what is said of it; nothing where there are none. */
export function factsHtml(title: string, list: readonly Fact[]): string {
  if (list.length === 0) return '';
  const rows = list.map(({ name, text }) => `<tr><th scope="row">${escaped(name)}</th><td>${escaped(text)}</td></tr>`);
  return `<section><h2>${escaped(title)}</h2><table><tbody>${rows.join('\n')}</tbody></table></section>`;
}
