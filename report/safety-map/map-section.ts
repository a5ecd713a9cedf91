import { existsSync, readFileSync } from 'node:fs';
import type { Axis, SafetyMap } from '../../search/safety-map/index.js';
import { escaped } from '../../text/escaped.js';
import { type Here, MAP_LEGEND, mapPicture } from './map-picture.js';
import { axisScale } from './map-scale.js';
import { AXIS_WORDS, phrase, valueWords } from './phrases.js';

/** A part of a page, with the script that it needs there. */
export interface PageSection {
  readonly html: string;
  readonly script: string;
}

/** A map with its legend and its read-out, for any page that has `MAP_CSS`. */
export function mapSection(map: SafetyMap, here: Here | null, label: string): PageSection {
  const { x, y } = map.plan;
  const script = mapScript();
  const slider = (id: string, { name, values }: Axis, count: number): string =>
    `<label for="${id}">${escaped(AXIS_WORDS[name])}</label><input id="${id}" type="range" min="0" max="${count - 1}"><span>${escaped(valueWords(name, values[0] ?? 0))}</span>`;
  if (map.columns.length === 0) return { html: '<p>No column was measured.</p>', script: '' };
  return {
    html: `<figure>
${mapPicture(map, here, label)}
${MAP_LEGEND}
<div class="readout" hidden><output id="answer" for="across up"></output>
${slider('across', x, map.columns.length)}
${slider('up', y, y.values.length)}</div>
</figure>
<script type="application/json" id="safety-map">${dataOf(map, here)}</script>
<script>${script}</script>`,
    script,
  };
}

/** What the read-out says. It begins where the reader is, else in the column of the answer. */
function dataOf(map: SafetyMap, here: Here | null): string {
  const { plan, columns, focus } = map;
  const axis = (it: Axis, mayBeWide: boolean): object => ({
    words: it.values.map((value) => valueWords(it.name, value)),
    phrases: it.values.map((value) => phrase(it.name, value)),
    borders: axisScale(it, mayBeWide).borders.map((border) => Number(border.toFixed(3))),
  });
  const nearest = (values: readonly number[], wanted: number): number =>
    values.reduce((best, it, i) => (Math.abs(it - wanted) < Math.abs((values[best] ?? 0) - wanted) ? i : best), 0);
  const data = {
    x: axis(plan.x, true),
    y: axis(plan.y, false),
    cells: columns.map(({ measured }) => measured),
    edges: columns.map(({ boundaries }) =>
      boundaries
        .map(
          ({ below, above }) =>
            `${capital(below.verdict)} up to ${valueWords(plan.y.name, below.at)}, ${above.verdict} from ${valueWords(plan.y.name, above.at)}.`,
        )
        .join(' '),
    ),
    at: [
      nearest(
        columns.map(({ at }) => at),
        here?.x ?? focus.at,
      ),
      nearest(plan.y.values, here?.y ?? focus.boundaries[0]?.below.at ?? plan.y.values[0] ?? 0),
    ],
  };
  return JSON.stringify(data).replaceAll('<', '\\u003c');
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Reads the script of a map, from the source or from the package that this is built into. */
function mapScript(): string {
  const places = ['./chart.js', '../../../report/safety-map/chart.js'].map((it) => new URL(it, import.meta.url));
  const found = places.find((it) => existsSync(it));
  if (found === undefined) throw new Error('report/safety-map/chart.js of the package is missing');
  return readFileSync(found, 'utf8');
}
