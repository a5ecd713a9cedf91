import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { judgeAsExpected } from '../../properties/expectation.js';
import { mitigate } from '../../scenarios/index.js';
import { sweepPlanOf, USUAL_ROOM } from '../../search/safety-map/index.js';
import { CATALOGUE } from '../testing/scenes.js';
import { tourOf } from './tour.js';

const markdown = readFileSync(new URL('../../docs/tour.md', import.meta.url), 'utf8');
const tour = tourOf(markdown);

it('has every command of the document as a step, with what is seen', () => {
  const commands = markdown.match(/^npm run -s lockstep -- .*$/gm) ?? [];
  const steps = tour.flatMap((stop) => stop.steps);
  expect(steps).toHaveLength(commands.length);
  expect(tour.length).toBeGreaterThan(8);
  expect(tour.map(({ title }) => title)).toContain('A node loses its data');
});

it('shows what it says it shows', () => {
  for (const { scenario: id, with: settings, map, says } of tour.flatMap((stop) => stop.steps)) {
    if (map.length > 0) {
      expect(() => sweepPlanOf(map, () => USUAL_ROOM)).not.toThrow();
      continue;
    }
    const scenario = CATALOGUE.find((it) => it.id === id) ?? expect.fail(id);
    const judgement = judgeAsExpected(settings.reduce(mitigate, scenario.schedule), scenario.expect);
    expect({ id, settings, says: says.split(':')[0] }).toEqual({ id, settings, says: judgement.verdict });
  }
});

it('has no mark of Markdown left in its texts', () => {
  for (const text of tour.flatMap(({ texts }) => texts)) expect(text).not.toMatch(/[`*|]|\]\(|^#/);
});
