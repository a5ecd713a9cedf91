import { expect } from 'vitest';
import { failureText } from '../../cli/campaign-failure-text.js';
import { axeFindings, openAny } from '../../report/testing/browser.js';
import { browserTests } from '../../report/testing/in-browser.js';
import type { CampaignState } from '../queue/index.js';
import { middle } from '../testing/state.js';
import { type PageOptions, servePage } from './server.js';

const OPTIONS: PageOptions = { name: 'night', port: 0, textOf: failureText, freshMs: 0 };
/** The page asks every two seconds. */
const SOME_ASKS = { timeout: 20_000 };
const inBrowser = browserTests('the page of a campaign');

inBrowser('the page follows the campaign, by itself and without complaint', async (browser) => {
  const first = middle();
  let asked = 0;
  const state = async (): Promise<CampaignState> => (asked++ === 0 ? first : { ...first, isOver: true, waiting: 0 });
  await using served = await servePage({ state }, OPTIONS);
  const { page, context, problems } = await openAny(browser, served.url);
  const main = page.locator('main');
  expect(await page.locator('h1').innerText()).toBe('Campaign night');
  await expect.poll(() => main.innerText(), SOME_ASKS).toContain('Over');
  expect(await main.innerText()).not.toContain('At work');
  expect(asked).toBeGreaterThan(1);
  // A name with HTML in it stays a name.
  expect(await main.innerHTML()).toContain('&lt;b&gt;&amp;"');
  expect(await main.innerHTML()).toMatch(/<polyline [^>]*points="[\d.]+,[\d.]+/);
  expect(problems).toEqual([]);
  await context.close();
});

for (const dark of [false, true]) {
  inBrowser(`the page has nothing that axe finds wrong, ${dark ? 'dark' : 'light'}`, async (browser) => {
    await using served = await servePage({ state: async () => middle() }, OPTIONS);
    const { page, context, problems } = await openAny(browser, served.url, dark);
    expect(await axeFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
    await context.close();
  });
}

inBrowser('the page says when the server of the queue is away, and keeps what it showed', async (browser) => {
  let asked = 0;
  const state = async (): Promise<CampaignState> => {
    if (asked++ === 0) return middle();
    throw new Error('Connection is closed.');
  };
  await using served = await servePage({ state }, OPTIONS);
  const { page, context } = await openAny(browser, served.url);
  const told = page.getByRole('status');
  const away = 'The server of the queue does not answer: Connection is closed.';
  await expect.poll(() => told.innerText(), SOME_ASKS).toBe(away);
  expect(await page.locator('main').innerText()).toContain('3 of 4 ranges');
  await context.close();
});
