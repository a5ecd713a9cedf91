import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { pairsPage } from './pairs-page.js';

it('docs/pairs.md is the page of test/pairs.json (npm run -s docs:pairs writes both; vitest -u the page)', async () => {
  const report = JSON.parse(readFileSync(new URL('pairs.json', import.meta.url), 'utf8'));
  await expect(pairsPage(report)).toMatchFileSnapshot(new URL('../docs/pairs.md', import.meta.url).pathname);
});
