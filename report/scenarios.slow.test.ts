import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { openPage, settled } from './testing/browser.js';
import { browserTests } from './testing/in-browser.js';
import { CATALOGUE } from './testing/scenes.js';
import { pagesIn } from './testing/written-page.js';

const folder = mkdtempSync(join(tmpdir(), 'lockstep-report-'));
const written = pagesIn(folder);
const inBrowser = browserTests('the report of each scenario');

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Scenarios of one test: on a busy machine each takes seconds to open. */
const TOGETHER = 10;

for (let from = 0; from < CATALOGUE.length; from += TOGETHER) {
  const scenarios = CATALOGUE.slice(from, from + TOGETHER);
  const names = `${scenarios.at(0)?.id} to ${scenarios.at(-1)?.id}`;
  inBrowser(`the scenarios ${names} run to the same hash and verdict in the page as in Node`, async (browser) => {
    const { page, context, problems } = await openPage(browser, written('S03').url);
    for (const { id } of scenarios) {
      const { url, hash, verdict } = written(id);
      await page.goto(url);
      await settled(page);
      const seen = {
        hash: await page.locator('[data-hash]').getAttribute('data-hash'),
        verdict: await page.locator('h1').getAttribute('data-verdict'),
      };
      expect({ id, ...seen, problems }).toEqual({ id, hash, verdict, problems: [] });
    }
    await context.close();
  });
}
