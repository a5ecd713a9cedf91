import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { judgeAsExpected } from '../../properties/expectation.js';
import { canRun } from '../../real/testing/can-run.js';
import { openAny } from '../testing/browser.js';
import { FIREFOX, Firefox, NO_FIREFOX } from '../testing/firefox.js';
import { browserTests } from '../testing/in-browser.js';
import { playgroundIn } from '../testing/playground-page.js';
import { CATALOGUE } from '../testing/scenes.js';
import { fragmentAt } from './link.js';

const folder = mkdtempSync(join(tmpdir(), 'lockstep-playground-'));
const url = `${playgroundIn(folder).url}#S03`;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What each scenario comes to in Node. */
function inNode(): { id: string; hash: string; verdict: string }[] {
  return CATALOGUE.map(({ id, schedule, expect: expected }) => {
    const judgement = judgeAsExpected(schedule, expected);
    return { id, hash: judgement.run.hash, verdict: judgement.verdict };
  });
}

/** In a page: what each scenario comes to there, opened one after the other by the address to which documents link. */
const RUN_ALL = `async (places) => {
  const rows = [];
  for (const [id, fragment] of places) {
    location.hash = fragment;
    for (let tries = 0; tries < 2000; tries++) {
      const it = document.querySelector('[data-verdict]');
      if (it !== null && document.querySelector('.verdict .id')?.textContent.startsWith(id + ' ')) {
        rows.push({ id, hash: it.getAttribute('data-hash'), verdict: it.getAttribute('data-verdict') });
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  return rows;
}`;

/** The same for the whole catalogue. */
function runAll(): string {
  const places = CATALOGUE.map(({ id }) => [id, fragmentAt({ scenario: id })]);
  return `(${RUN_ALL})(${JSON.stringify(places)})`;
}

browserTests('the playground')('runs the whole catalogue to the hashes and verdicts of Node', async (browser) => {
  const { page, context, problems } = await openAny(browser, url);
  await page.waitForSelector('[data-verdict]');
  expect(await page.evaluate(runAll())).toEqual(inNode());
  // The worker comes from the page itself.
  expect(problems.filter((it) => !it.startsWith('asks for blob:'))).toEqual([]);
  await context.close();
});

const hasFirefox = canRun('the playground in Firefox', 'firefox', FIREFOX === undefined ? NO_FIREFOX : undefined);

test.skipIf(!hasFirefox)('does so in Firefox', async () => {
  const firefox = await Firefox.launch();
  try {
    await firefox.goto(url);
    expect(await firefox.evaluate(runAll())).toEqual(inNode());
  } finally {
    firefox.close();
  }
});
