import { escaped } from '../../text/escaped.js';
import type { BoundDistance } from './pass-report.js';

/** Where the bound stands in a bar, percent: what lies behind it is beyond. */
const BOUND_AT = 80;

/** How much of each bound is used: a bar for each, up to where it ends, with the figures beside it. */
export function boundsChart(bounds: readonly BoundDistance[]): string {
  const rows = bounds.map((it) => {
    const { name, yours, bound, direction, used, note } = it;
    const more = note === '' ? '' : `<span class="dim">${escaped(note)}</span>`;
    return `<tr><th scope="row">${escaped(name)}</th><td class="bar">${barOf(used)}</td>
<td><strong>${escaped(used === null ? 'none of it' : yours)}</strong>, safe with ${direction} ${escaped(bound)}<br><span class="dim">${escaped(distanceWords(used))}</span> ${more}</td></tr>`;
  });
  return `<div class="scroll" role="region" tabindex="0" aria-label="How far each bound is"><table class="bounds"><thead><tr><th scope="col">what is assumed</th><th scope="col"><span class="ends"><span>nothing used</span><span>bound</span></span></th><th scope="col">yours, and the bound</th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div>`;
}

function distanceWords(used: number | null): string {
  if (used === null) return 'Nothing of it was assumed to happen.';
  if (used === Number.POSITIVE_INFINITY) return 'Past the bound: some of it is needed, and there is none.';
  const percent = Math.round(100 * used);
  if (used > 1) return `Past the bound: ${percent} % of it.`;
  if (used === 1) return 'At the bound: it was tried up to there, and withstood.';
  return `${percent} % of the bound is used.`;
}

function barOf(used: number | null): string {
  const width = used === null ? 0 : Math.min(100, used * BOUND_AT);
  const at = `${Number(width.toFixed(1))}%`;
  const past = used !== null && used > 1;
  return (
    `<svg width="100%" height="24" aria-hidden="true"><rect class="track" y="8" width="${BOUND_AT}%" height="8"/>` +
    `<rect class="beyond" x="${BOUND_AT}%" y="8" width="${100 - BOUND_AT}%" height="8"/>` +
    `<rect class="used${past ? ' past' : ''}" y="8" width="${at}" height="8"/>` +
    `<line class="bound" x1="${BOUND_AT}%" x2="${BOUND_AT}%" y1="2" y2="22"/>` +
    (used === null ? '' : `<circle class="yours${past ? ' past' : ''}" cx="${at}" cy="12" r="5"/>`) +
    '</svg>'
  );
}

/** The looks of the bars. */
export const BOUNDS_CSS: string = `
.bounds{width:100%}.bounds .bar{width:38%;min-width:9rem}.bounds svg{overflow:visible}
.ends{position:relative;display:block}.ends span+span{position:absolute;left:${BOUND_AT}%;transform:translateX(-50%)}
.track{fill:var(--good-fill)}.beyond{fill:var(--bad-fill)}.used{fill:var(--good)}.past{fill:var(--bad)}
.bound{stroke:var(--ink);stroke-width:2}.yours{fill:var(--good);stroke:var(--paper);stroke-width:2}.yours.past{fill:var(--bad)}
.bounds .dim{font-size:var(--size-2)}
@media(max-width:600px){.bounds thead{display:none}.bounds tr{display:block;border-bottom:1px solid var(--line);padding:var(--space-2) 0}.bounds th,.bounds td,.bounds .bar{display:block;width:100%;border:0;padding:2px 0}}
`.trim();
