import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ORIGINS, PROFILES } from '../deviations/index.js';
import { addressOf, fragmentAt } from '../report/playground/index.js';
import { pageSearchOf } from '../report/playground/settings.js';
import { loadCatalogue } from '../scenarios/catalogue.js';
import { CLIENT_DIFFERENCES } from '../search/profiles/distinctions.js';
import { correctionsText, verdictTable } from '../search/profiles/tables.js';
import { catalogueTable } from './catalogue-table.js';

const file = new URL('../docs/scenarios.md', import.meta.url);

test('the table in docs/scenarios.md is that of the files (vitest -u writes it)', async () => {
  const text = readFileSync(file, 'utf8');
  const start = text.indexOf('| id | what happens |');
  const end = text.indexOf('\n\n', start);
  expect(start).toBeGreaterThan(0);
  const table = catalogueTable(loadCatalogue());
  await expect(text.slice(0, start) + table + text.slice(end)).toMatchFileSnapshot(file.pathname);
});

test('what docs/client-profiles.md says of known clients is what the tests hold (npm run docs:profiles writes it)', () => {
  const text = readFileSync(new URL('../docs/client-profiles.md', import.meta.url), 'utf8');
  expect(text).toContain(verdictTable(CLIENT_DIFFERENCES));
  expect(text).toContain(correctionsText(CLIENT_DIFFERENCES));
});

test('scenarios named in the docs exist', () => {
  const ids = new Set(loadCatalogue().map((scenario) => scenario.id));
  for (const name of [
    'scenarios.md',
    'real-scenarios.md',
    'architecture.md',
    'results.md',
    'tour.md',
    'theory.md',
    'configuration.md',
  ]) {
    const text = readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8');
    for (const id of text.match(/\bS\d\d[a-z]?\b/g) ?? []) expect(ids, `${id} in ${name}`).toContain(id);
  }
});

test('what the docs show in the playground is there, for every scenario and every known client', () => {
  const ids = loadCatalogue().map(({ id }) => id);
  const namesIn = (name: string): string[] => {
    const text = readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8');
    return [...text.matchAll(/^\| .*`lockstep playground --at (\S+) --open` \|$/gm)].map(([, at = '']) => at);
  };
  expect(namesIn('scenarios.md')).toEqual(ids);
  const profiles = namesIn('client-profiles.md');
  expect(profiles).toEqual(Object.keys(ORIGINS).filter((it) => Object.hasOwn(PROFILES, it)));
  for (const profile of profiles) {
    const { tab, search } = addressOf(fragmentAt({ profile }));
    expect({ tab, search: pageSearchOf(search).plan.faultModel.policy.profile }).toEqual({
      tab: 'search',
      search: profile,
    });
  }
  const found = namesIn('findings/README.md');
  expect(found.length).toBeGreaterThan(15);
  expect(found.filter((it) => !ids.includes(it))).toEqual([]);
});

test('the README does not promise more scenarios than there are', () => {
  expect(readFileSync(new URL('../README.md', import.meta.url), 'utf8')).toContain('more than a hundred');
  expect(loadCatalogue().length).toBeGreaterThan(100);
});
