import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { catalogueTable } from '../report/catalogue-table.js';
import { loadCatalogue } from '../scenarios/catalogue.js';

const file = new URL('../docs/scenarios.md', import.meta.url);

test('the table in docs/scenarios.md is that of the files (vitest -u writes it)', async () => {
  const text = readFileSync(file, 'utf8');
  const start = text.indexOf('| id | what happens |');
  const end = text.indexOf('\n\n', start);
  expect(start).toBeGreaterThan(0);
  const table = catalogueTable(loadCatalogue());
  await expect(text.slice(0, start) + table + text.slice(end)).toMatchFileSnapshot(file.pathname);
});

test('scenarios named in the docs exist', () => {
  const ids = new Set(loadCatalogue().map((scenario) => scenario.id));
  for (const name of ['scenarios.md', 'real-scenarios.md', 'architecture.md', 'results.md']) {
    const text = readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8');
    for (const id of text.match(/\bS\d\d[a-z]?\b/g) ?? []) expect(ids, `${id} in ${name}`).toContain(id);
  }
});
