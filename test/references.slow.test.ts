import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { apiReference } from './api-reference.js';
import { cliReference } from './cli-reference.js';

const read = (file: string): string => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');

it('docs/cli.md is the help of the command (npm run docs:api writes it)', async () => {
  expect(read('docs/cli.md')).toBe(await cliReference());
});

it('both packages export at most 120 names', () => {
  const names = apiReference().flatMap((entry) => entry.names);
  expect(names.length).toBeGreaterThan(30);
  expect(names.length).toBeLessThanOrEqual(120);
});

it.each(apiReference())('$file is what $entry exports (npm run docs:api writes it)', ({ file, text, names }) => {
  expect(names.length).toBeGreaterThan(3);
  expect(read(file)).toBe(text);
});
