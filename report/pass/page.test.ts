import { expect, test } from 'vitest';
import { FAULT_FREE, sweep } from '../../search/safety-map/index.js';
import { curveChart } from './curve-chart.js';
import { estimatesChart } from './estimates-chart.js';
import { type EstimateRow, type PassReport, passPage } from './index.js';
import type { Curve } from './pass-report.js';

const NOTHING: PassReport = {
  subject: '5 nodes, TTL 10 000 ms',
  verdict: 'passed',
  tone: 'good',
  sentence: 'Nothing was found in 10 000 schedules.',
  bounds: [],
  map: null,
  tried: [],
  notTried: [],
  nearMisses: [],
  changes: [],
  lines: [],
  configuration: [],
  meaning: [],
  commands: [],
};

test('leaves out what there is nothing of, and lets no script in', () => {
  const page = passPage(NOTHING);
  expect(page).toContain('✓ passed');
  expect(page).not.toContain('<h2>');
  expect(page).not.toContain('<script');
  expect(page).toContain("default-src 'none'; script-src 'none'");
});

test('says how far a bound is, by a bar and in words, within, at and past it', () => {
  const bound = (used: number | null): string =>
    passPage({
      ...NOTHING,
      bounds: [{ name: 'rate of clocks', yours: '100 ppm', bound: '5 050 ppm', direction: 'at most', used, note: '' }],
    });
  expect(bound(0.5)).toContain('50 % of the bound is used');
  expect(bound(0.5)).toContain('<rect class="used" y="8" width="40%"');
  expect(bound(1)).toContain('At the bound');
  expect(bound(1.2)).toContain('Past the bound: 120 %');
  expect(bound(1.2)).toContain('class="used past"');
  expect(bound(null)).toContain('Nothing of it was assumed');
});

const EVIL = '<img src=x onerror=alert(1)>"\'</script>';
const row = (changes: Partial<EstimateRow>): EstimateRow => {
  return { name: 'all', value: 1, low: 0.1, high: 10, text: '', note: '', command: null, ...changes };
};
const point = (x: number): Curve['points'][number] => {
  return { x, y: x, xText: EVIL, yText: EVIL, note: EVIL, isHere: x === 0 };
};

test('estimates stand on one logarithmic axis, and what was not seen has an interval and no point', () => {
  const html = estimatesChart([row({}), row({ value: 0, low: 0, high: 0.1 })], 'a year');
  expect(html).toContain('<circle class="estimate" cx="50.0%"');
  expect(html.match(/<circle/g)).toHaveLength(1);
  expect(html).toContain('<line class="interval" x1="6.0%" x2="94.0%"');
  expect(html).toContain('<line class="interval" x1="6.0%" x2="6.0%"');
  expect(estimatesChart([row({ value: 0, low: 0, high: 0 })], 'nothing')).not.toContain('NaN');
});

test('a curve is a picture and a table, with the own point marked', () => {
  const html = curveChart({ x: 'drift', y: 'validity', points: [point(0), point(1)] }, 'costs');
  expect(html.match(/<circle/g)).toHaveLength(2);
  expect(html.match(/class="estimate here"/g)).toHaveLength(1);
  expect(html).toContain('(yours)');
  expect(html).not.toContain('NaN');
});

test('texts that look like markup stay texts, wherever they stand', async () => {
  const evil = EVIL;
  const fact = [{ name: evil, text: evil }];
  const map = await sweep({
    x: { name: 'ttl', values: [1_000_000] },
    y: { name: 'drift', values: [0, 10_000] },
    base: FAULT_FREE,
  });
  const page = passPage({
    subject: evil,
    verdict: evil,
    tone: 'open',
    sentence: evil,
    bounds: [{ name: evil, yours: evil, bound: evil, direction: 'at least', used: 0.5, note: evil }],
    map: { map, here: { x: 1_000_000, y: 0, label: evil }, sentence: evil },
    sections: [
      { kind: 'facts', title: evil, facts: fact },
      {
        kind: 'estimates',
        title: evil,
        sentence: evil,
        rows: [row({ name: evil, text: evil, note: evil, command: evil })],
      },
      { kind: 'curve', title: evil, sentence: evil, curve: { x: evil, y: evil, points: [point(0), point(1)] } },
    ],
    tried: fact,
    notTried: fact,
    nearMisses: fact,
    changes: [{ fear: evil, change: evil, command: evil }],
    lines: [{ file: evil, why: evil, lines: [evil] }],
    configuration: fact,
    meaning: [evil],
    commands: [{ title: evil, command: evil }],
  });
  expect(page).not.toContain('<img');
  // The data of the map, and its script.
  expect(page.match(/<\/script>/g)).toHaveLength(2);
});
