import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import { beforeAll, expect } from 'vitest';
import { type Ended, lockstep } from '../campaign/testing/command.js';
import { canRunOnRedis } from '../real/testing/can-run.js';
import { axeFindings, openAny, openPage, type Watched } from '../report/testing/browser.js';
import { browserTests } from '../report/testing/in-browser.js';
import { findScenario } from '../scenarios/catalogue.js';
import { Exit } from './exit-codes.js';
import { emptyFolder } from './testing/in-process.js';

const artifacts = join(import.meta.dirname, '..', 'dist', 'artifacts');
const canPlay = canRunOnRedis('the page of a run on real nodes', 'processes');
const inBrowser = browserTests('the pages that commands write');
/** How often a play is repeated of which the machine was too busy to tell. */
const MOST_AGAIN = 2;

beforeAll(() => {
  mkdirSync(artifacts, { recursive: true });
});

/** A page that a command wrote, opened from a file, offline. */
async function pageOf(browser: Browser, name: string, html: string): Promise<Watched> {
  const path = join(emptyFolder(), `${name}.html`);
  writeFileSync(path, html);
  const watched = await openPage(browser, pathToFileURL(path).href);
  await watched.page.screenshot({ path: join(artifacts, `${name}.png`), fullPage: true });
  return watched;
}

/** A scenario on real nodes, as a page. Played again where the machine was too busy to tell. */
async function playedOnRealNodes(id: string): Promise<Ended> {
  const play = (): Promise<Ended> => lockstep('replay', id, '--real', '--format', 'html');
  let ran = await play();
  for (let again = 0; again < MOST_AGAIN && ran.code === Exit.inconclusive; again++) ran = await play();
  return ran;
}

/** It says that it is a recording, offers nothing that takes a run, and can be stepped through. */
async function isRecording({ page, problems }: Watched, why: string): Promise<void> {
  const said = await page.locator('.recording').innerText();
  expect(said).toContain('A recording. This page shows what was taken down, and cannot run it again');
  expect(said).toContain(why);
  expect(await page.locator('#engine').count()).toBe(0);
  expect(await page.getByRole('button', { name: 'diff' }).count()).toBe(0);
  const isAt = (event: number): Promise<void> =>
    expect.poll(() => page.locator('.when').innerText()).toContain(`event ${event} `);
  // The page follows its address a moment later: a key that comes before that is undone. And it may write an earlier
  // state into its address before the event of the new one.
  await page.evaluate(`location.hash = '#event=2'; history.replaceState(null, '', '#event=0');`);
  await isAt(2);
  await page.keyboard.press('ArrowLeft');
  await isAt(1);
  expect(await axeFindings(page)).toEqual([]);
  expect(problems).toEqual([]);
}

inBrowser('a run of a library is a page that says it is recorded', async (browser) => {
  const file = join(emptyFolder(), 'S03.json');
  const { schedule } = findScenario('S03');
  const [crash] = schedule.faults;
  const [c1, c2] = schedule.clients;
  // A real client connects and asks how its node is before its first command: n2 crashes after it has voted for c1.
  const faults = [{ ...crash, atUs: 30_000 }];
  const later = { ...c2, locks: c2?.locks.map((it) => ({ ...it, atUs: 40_000 })) };
  writeFileSync(file, JSON.stringify({ ...schedule, faults, clients: [c1, later] }));
  const { code, stdout, stderr } = await lockstep(
    ...['libraries', '--replay', file, '--only', 'redlock5', '--format', 'html'],
  );
  expect([code, stderr]).toEqual([Exit.violated, '']);
  const watched = await pageOf(browser, 'library-S03', stdout);
  expect(await watched.page.locator('h1').innerText()).toContain('mutual exclusion');
  expect(await watched.page.locator('.sentence').first().innerText()).toContain('c1 and c2 both held a');
  await isRecording(watched, 'the code of redlock5 is not in it');
  await watched.context.close();
});

inBrowser('a run on real nodes is a page with what clients did and what befell nodes', async (browser, context) => {
  if (!canPlay) return context.skip();
  const { code, stdout, stderr } = await playedOnRealNodes('S03');
  expect([code, stderr]).toEqual([Exit.ok, '']);
  const watched = await pageOf(browser, 'real-S03', stdout);
  expect(await watched.page.locator('.sentence').first().innerText()).toMatch(/c1 and c2 both held a for [\d ]+/);
  const events = await watched.page.locator('table').last().innerText();
  expect(events).toMatch(/n2\s+crashes/);
  expect(events).toMatch(/c2\s+holds B/);
  await isRecording(watched, 'it was played on real nodes');
  await watched.context.close();
});

inBrowser('two schedules are one page: both pictures, where they part, and both run again', async (browser) => {
  const { code, stdout, stderr } = await lockstep('replay', 'S03', '--diff', 'S04', '--format', 'html');
  expect([code, stderr]).toEqual([Exit.ok, '']);
  const { page, context, problems } = await pageOf(browser, 'diff-S03-S04', stdout);
  const said = (): Promise<string> => page.locator('.diff > p').first().innerText();
  expect(await said()).toContain('The runs part at 0 ms: in S03, c1: SET A');
  expect(await page.getByRole('region', { name: 'Picture of the run' }).count()).toBe(2);
  expect(await page.locator('tr.first').innerText()).toContain('n0: lost');
  await page.getByRole('button', { name: 'persistence=always' }).click();
  await expect.poll(() => page.locator('.diff th').allInnerTexts()).toContain('in S03 with persistence=always: safe');
  await page.locator('.diff tr.differs button').first().click();
  await expect.poll(() => page.locator('.inspector h2').innerText()).toMatch(/^c1 SET A .* → n0$/);
  expect(await axeFindings(page)).toEqual([]);
  await page.keyboard.press('d');
  await expect.poll(() => page.locator('.diff').count()).toBe(0);
  await expect.poll(() => page.url()).toContain('diff=0');
  expect(problems).toEqual([]);
  await context.close();
});

for (const dark of [false, true]) {
  inBrowser(`the page of a sweep has nothing that axe finds wrong, ${dark ? 'dark' : 'light'}`, async (browser) => {
    const path = join(emptyFolder(), 'safety-map.html');
    const { code, stderr } = await lockstep('sweep', 'ttl=1s,5s,10s', 'drift=0..2%/5', '--report', path);
    expect([code, stderr]).toEqual([Exit.ok, '']);
    const { page, context, problems } = await openAny(browser, pathToFileURL(path).href, dark);
    await page.waitForSelector('.readout output');
    await page.screenshot({ path: join(artifacts, `sweep${dark ? '-dark' : ''}.png`), fullPage: true });
    expect(await page.locator('h1').innerText()).toContain('the lock is safe with clocks');
    expect(await axeFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
    await context.close();
  });
}

const SYSTEM = join(import.meta.dirname, '..', 'examples/systems/redsync-systemd.json');
const RATES = join(import.meta.dirname, '..', 'examples/risk/system.json');
const ANSWERS = [
  { verb: 'advise', argv: ['advise', SYSTEM, '--runs', '50'], heading: 'not safe yet: safe with the changes below' },
  {
    verb: 'risk',
    argv: ['risk', RATES, '--runs', '500', '--workers', '1'],
    heading: 'Violations to be expected a year',
  },
];

for (const { verb, argv, heading } of ANSWERS) {
  inBrowser(`the page of ${verb} has nothing that axe finds wrong, light and dark`, async (browser) => {
    const path = join(emptyFolder(), 'page.html');
    const { code, stderr } = await lockstep(...argv, '--report', path);
    expect([code, stderr]).toEqual([Exit.ok, '']);
    for (const dark of [false, true]) {
      const { page, context, problems } = await openAny(browser, pathToFileURL(path).href, dark);
      expect(await page.locator('h1').innerText()).toContain(heading);
      expect(await axeFindings(page)).toEqual([]);
      expect(problems).toEqual([]);
      await context.close();
    }
  });
}

for (const dark of [false, true]) {
  inBrowser(`the page of a pass has nothing that axe finds wrong, ${dark ? 'dark' : 'light'}`, async (browser) => {
    const path = join(emptyFolder(), 'pass.html');
    const argv = ['check', '--runs', '300', '--no-regressions', '--no-config', '--report', path];
    const { code, stderr } = await lockstep(...argv);
    expect([code, stderr]).toEqual([Exit.ok, '']);
    const { page, context, problems } = await openAny(browser, pathToFileURL(path).href, dark);
    expect(await page.locator('h1').innerText()).toBe('✓ passed');
    // By keyboard alone: the read-out follows its sliders.
    await page.getByLabel('TTL', { exact: true }).press('End');
    expect(await page.locator('.readout output').innerText()).toContain('With a TTL of 30 000 ms');
    expect(await axeFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
    await context.close();
  });
}
