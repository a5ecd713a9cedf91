import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync, gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { judge } from '../../properties/judge.js';
import { canRun } from '../../real/testing/can-run.js';
import { parseScheduleText } from '../../scenarios/index.js';
import { searchRange } from '../../search/range.js';
import { axeFindings, openAny, type Watched } from '../testing/browser.js';
import { FIREFOX, Firefox, NO_FIREFOX } from '../testing/firefox.js';
import { browserTests } from '../testing/in-browser.js';
import { playgroundIn } from '../testing/playground-page.js';
import { serveFolder } from '../testing/static-server.js';
import { fragmentAt } from './link.js';
import { DEMONSTRATION_TEXTS, pageSearchOf } from './settings.js';

const MOST_PAGE = 150_000;
const MOST_ADDRESS = 2_000;

const folder = mkdtempSync(join(tmpdir(), 'lockstep-playground-'));
const { html, url } = playgroundIn(folder);
const inBrowser = browserTests('the playground');

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const verdict = (page: Page): Promise<string | null> => page.locator('[data-verdict]').getAttribute('data-verdict');
const hashIn = (page: Page): Promise<string | null> => page.locator('[data-hash]').getAttribute('data-hash');
const status = (page: Page): Promise<string> => page.locator('.status').innerText();

/** Without what is no problem: the worker comes from the page itself. */
function wrongOf(problems: readonly string[]): string[] {
  return problems.filter((it) => !it.startsWith('asks for blob:'));
}

/** The page with a run in it. */
async function opened(browser: Browser, fragment: string, dark = false): Promise<Watched> {
  const watched = await openAny(browser, url + fragment, dark);
  await watched.page.waitForSelector('[data-verdict], .map svg');
  return watched;
}

/** The first schedule of the demonstration that fails, from 1, as `check` finds it. */
function firstFailing(): number {
  const { plan, runs } = pageSearchOf(DEMONSTRATION_TEXTS);
  return (searchRange(plan, 0, runs).found[0]?.run ?? Number.NaN) + 1;
}

test(`the page is at most ${MOST_PAGE} bytes as gzip packs it, with the engine and the catalogue`, () => {
  expect(gzipSync(html, { level: 9 }).length).toBeLessThanOrEqual(MOST_PAGE);
});

describe('the playground, from a file and offline', () => {
  inBrowser('shows a violation first: the one that check --demo finds, made small', async (browser) => {
    const { page, context, problems } = await opened(browser, '');
    await expect.poll(() => status(page)).toContain('Made small');
    expect(await status(page)).toContain(`Schedule ${firstFailing()} of 1 000 breaks the lock`);
    expect(await verdict(page)).toBe('violated');
    expect(await page.locator('.sentence').innerText()).toContain('both held a');
    expect(await page.getByRole('button', { name: /persistence=always\s*, safe with it/ }).count()).toBe(1);
    await expect.poll(() => page.url()).toContain('&run=');
    expect(page.url().length).toBeLessThan(MOST_ADDRESS);
    expect(wrongOf(problems)).toEqual([]);
    await context.close();
  });

  inBrowser('opens what an address made here says, with mitigation and event', async (browser) => {
    const first = await opened(browser, '');
    await expect.poll(() => status(first.page)).toContain('Made small');
    await first.page.getByRole('button', { name: 'persistence=always' }).click();
    await expect.poll(() => verdict(first.page)).toBe('safe');
    await first.page.keyboard.press('ArrowRight');
    await expect.poll(() => first.page.url()).toMatch(/with=persistence%3Dalways&event=\d+/);
    const [address, hash] = [first.page.url(), await hashIn(first.page)];
    await first.context.close();
    const second = await opened(browser, address.slice(address.indexOf('#')));
    expect(await hashIn(second.page)).toBe(hash);
    expect(await verdict(second.page)).toBe('safe');
    await second.context.close();
  });

  inBrowser(
    'says what the parser says beside a schedule that is edited, and runs it when it is right',
    async (browser) => {
      const { page, context } = await opened(browser, '#S03');
      await page.getByRole('tab', { name: 'Edit the schedule' }).click();
      const field = page.getByLabel('schedule, as JSON');
      const text = await field.inputValue();
      const wrong = text.replace('"nodes": 5', '"nodes": 99');
      await field.fill(wrong);
      let said = '';
      try {
        parseScheduleText(wrong, 'schedule');
      } catch (error) {
        said = error instanceof Error ? error.message : '';
      }
      expect(said).toContain('/cluster/nodes');
      await expect.poll(() => page.locator('#parser').innerText()).toBe(`✗ ${said}`);
      await field.fill(text.replace('"persistence": "none"', '"persistence": "always"'));
      await expect.poll(() => verdict(page)).toBe('safe');
      await context.close();
    },
  );

  inBrowser('is stepped through by keyboard, and the result replays to the same hash', async (browser) => {
    const { page, context, problems } = await opened(browser, '#S03');
    await page.getByRole('tab', { name: 'Events' }).focus();
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => page.getByRole('tab', { name: 'Step by hand' }).getAttribute('aria-selected')).toBe('true');
    const take = async (name: RegExp | string): Promise<void> => {
      const before = page.url();
      await page.getByRole('button', { name }).first().press('Enter');
      await expect.poll(() => page.url()).not.toBe(before);
    };
    await take('From the beginning');
    for (const step of ['c1 asks for a', / n0 arrives$/, /c1.* n1 arrives$/, 'n2 crashes, back at once'])
      await take(step);
    expect(await verdict(page)).toBe('safe');
    const hash = await hashIn(page);
    await page.getByRole('tab', { name: 'Edit the schedule' }).click();
    const text = await page.getByLabel('schedule, as JSON').inputValue();
    const schedule = parseScheduleText(text, 'exported');
    expect(schedule.faults).toMatchObject([{ kind: 'crash', node: 'n2' }]);
    expect(judge(schedule).run.hash).toBe(hash);
    expect(wrongOf(problems)).toEqual([]);
    await context.close();
  });

  inBrowser('measures a map, and shows the run of a cell', async (browser) => {
    const { page, context, problems } = await opened(browser, '#map&map=ttl=10s,20s&map=drift=0..2%/3');
    expect(await page.locator('.answer').innerText()).toContain('the lock is safe with clocks 0.5126 % wrong');
    await page.getByLabel(/^drift rate of clocks/).press('End');
    await page.getByRole('button', { name: 'Show this run (violated)' }).press('Enter');
    await expect.poll(() => verdict(page)).toBe('violated');
    expect(wrongOf(problems)).toEqual([]);
    await context.close();
  });

  inBrowser('searches with a client profile, as documents link to it', async (browser) => {
    const { page, context } = await openAny(browser, url + fragmentAt({ profile: 'redlock-php' }));
    await expect.poll(() => status(page)).toContain('Made small');
    expect(
      await page
        .locator('label', { hasText: /^client(?!s)/ })
        .locator('select')
        .inputValue(),
    ).toBe('redlock-php');
    await context.close();
  });

  inBrowser('retells the argument in steps that run', async (browser) => {
    const { page, context } = await opened(browser, '#tour&stop=1');
    await expect.poll(() => verdict(page)).toBe('violated');
    await page.getByRole('button', { name: /S24 with resource=fencing/ }).click();
    await expect.poll(() => verdict(page)).toBe('safe');
    await page.getByRole('complementary').getByRole('button', { name: 'Next →' }).click();
    await expect.poll(() => page.locator('.verdict .id').innerText()).toContain('S26');
    await context.close();
  });

  inBrowser(
    'executes nothing that an address or a file says, and says what is wrong in one sentence',
    async (browser) => {
      const image = '<img src=x onerror="globalThis.pwned=1">';
      const packedUp = (value: unknown): string => deflateRawSync(JSON.stringify(value)).toString('base64url');
      const fragments = [
        `#scenario=${encodeURIComponent(image)}`,
        `#run=${packedUp({ cluster: { nodes: image }, clients: [{ id: image, locks: [] }], untilUs: 1 })}`,
        '#run=javascript:globalThis.pwned=1',
        `#search&ttl=${encodeURIComponent(image)}`,
        `#map&map=${encodeURIComponent(image)}`,
      ];
      for (const fragment of fragments) {
        const { page, context, problems } = await openAny(browser, url + fragment);
        await expect.poll(() => page.locator('.status .problem').count()).toBe(1);
        expect(await page.locator('.status .problem').innerText()).toMatch(/^[^\n]{10,400}$/);
        expect(await page.evaluate(() => Reflect.get(globalThis, 'pwned'))).toBeUndefined();
        expect(await page.locator('img, iframe').count()).toBe(0);
        expect(wrongOf(problems)).toEqual([]);
        await context.close();
      }
      const { page, context, problems } = await opened(browser, '#scenario=S03&panel=edit');
      const hostile = JSON.stringify({ schema: 'lockstep.schedule/2', cluster: image, __proto__: { a: 1 } });
      await page.getByLabel('Open a file').setInputFiles({
        name: `${image}.json`,
        mimeType: 'application/json',
        buffer: Buffer.from(hostile),
      });
      await expect.poll(() => page.locator('#parser').innerText()).toMatch(/^✗ schedule: [^\n]+$/);
      expect(await page.evaluate(() => Reflect.get(globalThis, 'pwned'))).toBeUndefined();
      const [policy = ''] = /<meta http-equiv="Content-Security-Policy"[^>]*>/.exec(html) ?? [];
      expect(policy).toMatch(/default-src .{1,6}none.{1,6}; script-src .{1,6}sha256-[^;]*; worker-src blob:/);
      expect(wrongOf(problems)).toEqual([]);
      await context.close();
    },
  );

  inBrowser('ends a run that does not end', async (browser) => {
    const { page, context } = await opened(browser, '#scenario=S03&panel=edit');
    const field = page.getByLabel('schedule, as JSON');
    const written = JSON.parse(await field.inputValue());
    for (const { locks } of written.clients) locks[0].ttlMs = 900_000_000;
    const policy = { profile: 'reference', settings: { tries: null, retryDelayUs: 0, retryJitterUs: 0 } };
    const cluster = { ...written.cluster, persistence: 'always' };
    const endless = JSON.stringify({ ...written, policy, cluster, untilUs: 900_000_000_000 });
    await field.fill(endless);
    await expect
      .poll(() => page.locator('main .problem').allInnerTexts())
      .toContainEqual(expect.stringContaining('more than 200 000 events'));
    await context.close();
  });

  for (const dark of [false, true]) {
    inBrowser(`has nothing that axe finds wrong, ${dark ? 'dark' : 'light'}`, async (browser) => {
      const places = [
        '',
        '#scenario=S24&panel=step',
        '#scenario=S03&panel=edit',
        '#tour&stop=2',
        '#map&map=ttl=10s,20s&map=drift',
      ];
      for (const fragment of places) {
        const { page, context } = await opened(browser, fragment, dark);
        expect({ fragment, found: await axeFindings(page) }).toEqual({ fragment, found: [] });
        await context.close();
      }
    });
  }
});

inBrowser('works the same from a host of static files', async (browser) => {
  const server = await serveFolder(folder);
  const { page, context, problems } = await openAny(browser, server.url);
  await expect.poll(() => status(page)).toContain('Made small');
  expect(await verdict(page)).toBe('violated');
  expect(wrongOf(problems)).toEqual([]);
  await context.close();
  server.close();
});

const hasFirefox = canRun('the playground in Firefox', 'firefox', FIREFOX === undefined ? NO_FIREFOX : undefined);

describe.skipIf(!hasFirefox)('the playground in Firefox', () => {
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await Firefox.launch();
  }, 90_000);
  afterAll(() => firefox.close());

  const said = (): Promise<string> => firefox.evaluate("document.querySelector('.status')?.textContent ?? ''");
  const shown = (): Promise<string | null> =>
    firefox.evaluate("document.querySelector('[data-verdict]')?.getAttribute('data-verdict') ?? null");

  test('finds the violation of the demonstration, from a file and from a host', async () => {
    const server = await serveFolder(folder);
    for (const place of [url, server.url]) {
      await firefox.goto('about:blank');
      await firefox.goto(place);
      await expect.poll(said).toContain('Made small');
      expect(await said()).toContain(`Schedule ${firstFailing()} of 1 000 breaks the lock`);
      expect(await shown()).toBe('violated');
    }
    server.close();
  });

  inBrowser('opens an address that was made in Chromium', async (browser) => {
    const { page, context } = await opened(browser, '');
    await expect.poll(() => status(page)).toContain('Made small');
    await expect.poll(() => page.url()).toContain('&run=');
    // The address follows what is on the page.
    await page.waitForTimeout(500);
    const [address, hash] = [page.url(), await hashIn(page)];
    await context.close();
    await firefox.goto('about:blank');
    await firefox.goto(address);
    await expect.poll(shown).toBe('violated');
    expect(await firefox.evaluate("document.querySelector('[data-hash]').getAttribute('data-hash')")).toBe(hash);
  });
});
