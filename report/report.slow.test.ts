import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, test } from 'vitest';
import { judgeAsExpected } from '../properties/expectation.js';
import { judge } from '../properties/judge.js';
import { variantSchedule } from '../scenarios/variant.js';
import { formatCount } from '../text/format.js';
import { htmlReport } from './html.js';
import { payloadOf, reportOf } from './payload-of.js';
import { axeFindings, openPage } from './testing/browser.js';
import { browserTests } from './testing/in-browser.js';
import { longSchedule } from './testing/long-run.js';
import { pagesIn, scenarioOf } from './testing/written-page.js';
import { viewerFiles } from './viewer-files.js';

const folder = mkdtempSync(join(tmpdir(), 'lockstep-report-'));
const artifacts = join(import.meta.dirname, '..', 'dist', 'artifacts');
const inBrowser = browserTests('the report');

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const written = pagesIn(folder);
const verdict = (page: Page): Promise<string | null> => page.locator('h1').getAttribute('data-verdict');
const hashIn = (page: Page): Promise<string | null> => page.locator('[data-hash]').getAttribute('data-hash');
const inspected = (page: Page): Promise<string> => page.locator('.inspector').innerText();
const current = (page: Page): Promise<string> => page.locator('tr[aria-current]').innerText();

describe('the report of S03, from a file and offline', () => {
  inBrowser('opens without a word in the console, with the same hash as in Node', async (browser) => {
    const { url, hash } = written('S03');
    const { page, context, problems } = await openPage(browser, url);
    expect(await verdict(page)).toBe('violated');
    expect(await page.locator('.sentence').innerText()).toContain('c1 and c2 both held a for 9 894 ms');
    expect(await hashIn(page)).toBe(hash);
    await page.getByText('What the chance in the picture is a share of').click();
    expect(await page.locator('.model p').innerText()).toContain('40 futures are drawn: of its messages 3 % are lost');
    mkdirSync(artifacts, { recursive: true });
    await page.screenshot({ path: join(artifacts, 'report-S03.png'), fullPage: true });
    expect(problems).toEqual([]);
    await context.close();
  });

  inBrowser('is led to its violation by v, and back there by the address', async (browser) => {
    const { url } = written('S03');
    const first = await openPage(browser, `${url}#event=0`);
    await first.page.keyboard.press('v');
    await expect.poll(() => first.page.locator('.inspector h2').innerText()).toContain('c2 holds B: n2 n3 n4 granted');
    await first.page.keyboard.press('x');
    await expect.poll(() => first.page.url()).toContain('axis=true');
    const address = first.page.url();
    const seen = await inspected(first.page);
    await first.context.close();
    const second = await openPage(browser, address);
    expect(await inspected(second.page)).toBe(seen);
    expect(await second.page.getByLabel('time').inputValue()).toBe('true');
    expect(second.problems).toEqual([]);
    await second.context.close();
  });

  inBrowser('goes through all events by keyboard, with inspector and table', async (browser) => {
    const { url, events } = written('S03');
    const { page, context, problems } = await openPage(browser, `${url}#event=0`);
    const seen = new Set<string>();
    for (let step = 0; step < events; step++) {
      await expect.poll(() => page.locator('.when').innerText()).toContain(`event ${step} `);
      const [title, row] = [await page.locator('.inspector h2').innerText(), await current(page)];
      const [, who, what] = row.split('\t').map((it) => it.trim());
      expect(title.replace(/\s+/g, ' ')).toBe(`${who} ${what}`);
      seen.add(`${await page.locator('.when').innerText()}`);
      await page.keyboard.press('ArrowRight');
    }
    expect(seen.size).toBe(events);
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => page.locator('.when').innerText()).toContain(`event ${events - 2} `);
    expect(problems).toEqual([]);
    await context.close();
  });

  inBrowser('knows the other end of a message, causes, lanes and faults', async (browser) => {
    const { page, context } = await openPage(browser, `${written('S03').url}#event=0`);
    const title = (): Promise<string> => page.locator('.inspector h2').innerText();
    await page.keyboard.press('n');
    await expect.poll(title).toContain('n2 crashes');
    await page.keyboard.press('ArrowRight');
    await expect.poll(title).toContain('n2 restart');
    await page.keyboard.press('c');
    await expect.poll(title).toContain('n2 crashes');
    await page.goto(`${page.url().split('#')[0]}#event=1`);
    await expect.poll(title).toMatch(/^c1 SET A .* → n0$/);
    await page.keyboard.press('m');
    await expect.poll(title).toContain('n0 does SET A');
    await page.keyboard.press('m');
    await expect.poll(title).toMatch(/^c1 SET A .* → n0$/);
    await page.keyboard.press(']');
    await expect.poll(title).toMatch(/^c1 SET A .* → n1$/);
    await page.keyboard.press('[');
    await expect.poll(title).toMatch(/^c1 SET A .* → n0$/);
    await context.close();
  });

  inBrowser('flips its verdict with a mitigation that is switched on in the page', async (browser) => {
    const { page, context, problems } = await openPage(browser, written('S03').url);
    const scenario = scenarioOf('S03');
    const flip = scenario.flips[0];
    if (flip?.with === undefined) throw new Error('S03 has lost its flip');
    await page.getByRole('button', { name: flip.with }).click();
    expect(await verdict(page)).toBe('safe');
    expect(await hashIn(page)).toBe(judgeAsExpected(variantSchedule(scenario, flip), flip.expect).run.hash);
    await page.keyboard.press('d');
    expect(await page.locator('.diff > p').first().innerText()).toContain('The runs part at 3 ms: as written, n2: ');
    await page.getByRole('button', { name: flip.with }).click();
    expect(await verdict(page)).toBe('violated');
    expect(problems).toEqual([]);
    await context.close();
  });

  inBrowser('takes a parameter that is typed, and says what is wrong with a bad one', async (browser) => {
    const { page, context } = await openPage(browser, written('S03').url);
    await page.getByLabel('another').fill('ttl=0');
    await page.keyboard.press('Enter');
    expect(await page.locator('#problem').innerText()).toContain('mitigation "ttl=0"');
    expect(await verdict(page)).toBe('violated');
    await page.getByLabel('another').fill('nodes=4');
    await page.keyboard.press('Enter');
    expect(await page.locator('.config').innerText()).toContain('4 nodes');
    await context.close();
  });

  for (const dark of [false, true]) {
    inBrowser(`has nothing that axe finds wrong, ${dark ? 'dark' : 'light'}`, async (browser) => {
      const { page, context } = await openPage(browser, `${written('S03').url}#with=persistence%3Dalways&diff=1`, dark);
      await page.keyboard.press('?');
      expect(await axeFindings(page)).toEqual([]);
      await context.close();
    });
  }
});

/** Bytes, as gzip -9 packs them. */
const MOST_VIEWER = 40_000;
// What known clients do otherwise is a part of it, each deviation by its name.
const MOST_ENGINE = 57_000;

describe('sizes', () => {
  const files = viewerFiles();

  test('the report of a counterexample is at most 150 KB on disk, and the viewer no larger than it is', () => {
    const { url } = written('S03');
    expect(statSync(new URL(url)).size).toBeLessThanOrEqual(150_000);
    const gzipped = (text: string): number => gzipSync(text, { level: 9 }).length;
    expect(gzipped(files.script) + gzipped(files.style)).toBeLessThanOrEqual(MOST_VIEWER);
    expect(gzipped(files.engine)).toBeLessThanOrEqual(MOST_ENGINE);
  });

  inBrowser(
    'a run of more than 100 000 events is at most 1 MB on disk, opens, and can be stepped through',
    async (browser) => {
      const schedule = longSchedule(650);
      const judgement = judge(schedule, [], true);
      expect(judgement.run.trace.length).toBeGreaterThan(100_000);
      const html = htmlReport(
        payloadOf({ id: 'long', schedule, scenario: null, judgement, replay: 'lockstep replay long' }),
      );
      expect(html.length).toBeLessThanOrEqual(1_000_000);
      const path = join(folder, 'long.html');
      writeFileSync(path, html);
      const { page, context, problems } = await openPage(browser, `${pathToFileURL(path).href}#event=50000`);
      await page.keyboard.press('ArrowRight');
      await expect.poll(() => page.locator('.when').innerText()).toContain('event 50001 ');
      expect(await hashIn(page)).toBe(judgement.run.hash);
      // The small picture leads through it by keyboard, and leaves the event where it is.
      await page.getByRole('slider', { name: 'Where in the run' }).focus();
      for (const [key, from, to] of [
        ['Home', 0, 0],
        ['PageUp', 0.05, 0.2],
        ['ArrowRight', 0.06, 0.22],
        ['End', 1, 1],
      ] as const) {
        await page.keyboard.press(key);
        const share = `(({ scrollLeft, scrollWidth, clientWidth }) => scrollLeft / (scrollWidth - clientWidth))(document.querySelector('.scroll'))`;
        const at = Number((await page.evaluate<number>(share)).toFixed(3));
        expect({ key, at, isThere: at >= from && at <= to }).toEqual({ key, at, isThere: true });
      }
      await expect.poll(() => page.locator('.when').innerText()).toContain('event 50001 ');
      expect(problems).toEqual([]);
      await context.close();
    },
  );

  inBrowser(
    'a run of more than 1 000 000 events is shown as a window, and the rest comes from the file beside it',
    async (browser) => {
      const schedule = longSchedule(6_400);
      const judgement = judge(schedule, [], true);
      const total = judgement.run.trace.length;
      expect(total).toBeGreaterThan(1_000_000);
      const input = { id: 'endless', schedule, scenario: null, judgement, replay: 'lockstep replay endless' };
      const path = join(folder, 'endless.html');
      const { payload, beside } = reportOf(input, 'endless.trace');
      writeFileSync(path, htmlReport(payload));
      writeFileSync(join(folder, 'endless.trace'), beside ?? '');
      expect(statSync(path).size).toBeLessThanOrEqual(1_000_000);
      const { page, context, problems } = await openPage(browser, pathToFileURL(path).href);
      const bar = (): Promise<string> => page.locator('.window').innerText();
      const when = (): Promise<string> => page.locator('.when').innerText();
      expect(await bar()).toContain(`of ${formatCount(total)}`);
      expect(await page.locator('.recording').innerText()).toContain('it is too long to be run in a page');
      await page.goto(`${pathToFileURL(path).href}#event=${total - 3}`);
      await expect.poll(when).toContain(`event ${total - 3} `);
      await page.keyboard.press('ArrowRight');
      await expect.poll(when).toContain(`event ${total - 2} `);

      const chooser = page.locator('input[type=file]');
      writeFileSync(join(folder, 'other.trace'), 'not a trace');
      await chooser.setInputFiles(join(folder, 'other.trace'));
      await expect.poll(bar).toContain('not the one that was written with this report');
      await chooser.setInputFiles(join(folder, 'endless.trace'));
      await page.getByLabel('to event').fill('19999');
      await page.keyboard.press('Enter');
      await page.locator('h1').click();
      await expect.poll(when).toContain('event 19999 ');
      await page.keyboard.press('ArrowRight');
      await expect.poll(when).toContain('event 20000 ');
      await expect.poll(bar).toContain('events 20 000 to 39 999 of');
      await page.keyboard.press('ArrowLeft');
      await expect.poll(when).toContain('event 19999 ');
      expect(problems).toEqual([]);
      await context.close();
    },
  );
});
