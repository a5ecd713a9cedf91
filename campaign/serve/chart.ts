import { escaped } from '../../text/escaped.js';
import { formatCount } from '../../text/format.js';
import { PACE_S, type Throughput } from '../queue/result-store.js';

const WIDTH = 720;
const HEIGHT = 200;
const LEFT = 60;
const BOTTOM = 24;
/** Most points of a line; with more, neighbours are taken together. */
const MOST_POINTS = 120;
const DASHES = ['', '6 3', '2 3', '8 3 2 3'];
const COLOURS = ['var(--t1)', 'var(--t2)', 'var(--t3)', 'var(--t4)', 'var(--t5)', 'var(--t0)'];

interface Point {
  readonly atS: number;
  readonly perMillion: number;
}

/** The rate of violations of each search over time: lines that differ in colour and dash, each with its name. */
export function chartSvg(names: readonly string[], pace: readonly Throughput[]): string {
  const lines = names.map((_, search) => pointsOf(pace.filter((it) => it.search === search)));
  const all = lines.flat();
  if (all.length === 0) return '<p>Nothing yet.</p>';
  const mostS = Math.max(PACE_S, ...all.map(({ atS }) => atS + PACE_S));
  const most = Math.max(1, ...all.map(({ perMillion }) => perMillion));
  const x = (atS: number): string => (LEFT + ((WIDTH - LEFT) * atS) / mostS).toFixed(1);
  const y = (rate: number): string => (HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 12) * rate) / most).toFixed(1);
  const drawn = lines.map((points, i) => {
    const style = `fill="none" stroke-width="2" style="stroke:${COLOURS[i % COLOURS.length]}" stroke-dasharray="${DASHES[i % DASHES.length]}"`;
    const at = points.map((it) => `${x(Math.max(0, it.atS) + PACE_S / 2)},${y(it.perMillion)}`);
    const dots =
      points.length === 1
        ? `<circle r="3" style="fill:${COLOURS[i % COLOURS.length]}" cx="${at[0]?.split(',')[0]}" cy="${at[0]?.split(',')[1]}"/>`
        : '';
    return `<polyline ${style} points="${at.join(' ')}"/>${dots}`;
  });
  const legend = names.map((name, i) => {
    const line = `<line x1="0" x2="24" y1="6" y2="6" stroke-width="2" style="stroke:${COLOURS[i % COLOURS.length]}" stroke-dasharray="${DASHES[i % DASHES.length]}"/>`;
    return `<li><svg viewBox="0 0 24 12" style="width:24px" aria-hidden="true">${line}</svg> ${escaped(name)}</li>`;
  });
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="rate of violations over time; the table above has the sums">
<g fill="currentColor" font-size="12">
<text x="0" y="${y(most)}" dy="4">${formatCount(Math.round(most))}</text><text x="0" y="${y(0)}" dy="4">0</text>
<text x="${LEFT}" y="${HEIGHT - 6}">0 s</text><text x="${WIDTH}" y="${HEIGHT - 6}" text-anchor="end">${Math.round(mostS)} s</text>
</g>
<line x1="${LEFT}" x2="${WIDTH}" y1="${y(0)}" y2="${y(0)}" stroke="currentColor"/>
${drawn.join('\n')}
</svg><ul style="list-style:none;padding:0">${legend.join('')}</ul>`;
}

function pointsOf(pace: readonly Throughput[]): Point[] {
  const size = Math.ceil(pace.length / MOST_POINTS);
  const points: Point[] = [];
  for (let i = 0; i < pace.length; i += size) {
    const some = pace.slice(i, i + size);
    const runs = some.reduce((sum, it) => sum + it.runs, 0);
    const violating = some.reduce((sum, it) => sum + it.violating, 0);
    const [first] = some;
    if (first !== undefined && runs > 0) points.push({ atS: first.atS, perMillion: (violating / runs) * 1_000_000 });
  }
  return points;
}
