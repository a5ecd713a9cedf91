import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, expect } from 'vitest';
import { judgeAsExpected } from '../properties/expectation.js';
import { htmlReport } from './html.js';
import { payloadOf } from './payload-of.js';
import { openPage, settled } from './testing/browser.js';
import { browserTests } from './testing/in-browser.js';
import { CATALOGUE } from './testing/scenes.js';

const folder = mkdtempSync(join(tmpdir(), 'lockstep-answers-'));
const inBrowser = browserTests('the five questions');
const TWENTY = CATALOGUE.filter(
  ({ expect: { violations = [] }, schedule }) => violations.length > 0 && schedule.clients.length <= 3,
).slice(0, 20);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function pageOf(id: string): { readonly url: string; readonly payload: ReturnType<typeof payloadOf> } {
  const scenario = CATALOGUE.find((it) => it.id === id);
  if (scenario === undefined) throw new Error(`there is no ${id}`);
  const { schedule } = scenario;
  const judgement = judgeAsExpected(schedule, scenario.expect);
  const payload = payloadOf({ id, schedule, scenario, judgement, replay: `lockstep replay ${id}` });
  const path = join(folder, `${id}.html`);
  writeFileSync(path, htmlReport(payload));
  return { url: pathToFileURL(path).href, payload };
}

/** Runs in the page: the words above the picture, and labels of the picture that begin or end outside of the screen. */
const SEEN = `() => {
  const { innerWidth, innerHeight } = window;
  const boxes = [...document.querySelectorAll('h1, .sentence, .answers div:not(.spoken), .stage .bad, .stage text.good')];
  const off = boxes.filter((it) => {
    const { left, right, top, bottom } = it.getBoundingClientRect();
    return left < 0 || right > innerWidth + 1 || top < 0 || bottom > innerHeight;
  });
  const words = (selector) => [...document.querySelectorAll(selector)].map((it) => it.textContent);
  return {
    off: off.map((it) => it.textContent),
    answers: Object.fromEntries([...document.querySelectorAll('.answers div')].map((it) => [it.querySelector('dt').textContent, it.querySelector('dd').textContent])),
    wrong: words('.stage text.bad'),
    prevented: words('.stage text.good'),
    beliefs: document.querySelectorAll('.stage rect.belief').length,
    rules: document.querySelectorAll('.stage path.rule').length,
    path: document.querySelectorAll('.stage [data-seq]:not(.dim)').length,
    label: document.querySelector('.stage svg[role=img]').getAttribute('aria-label'),
    top: document.querySelector('.stage').getBoundingClientRect().top,
  };
}`;

interface Seen {
  readonly off: readonly string[];
  readonly answers: Readonly<Record<string, string>>;
  readonly wrong: readonly string[];
  readonly prevented: readonly string[];
  readonly beliefs: number;
  readonly rules: number;
  readonly path: number;
  readonly label: string;
  readonly top: number;
}

const seenIn = (page: Page): Promise<Seen> => page.evaluate(`(${SEEN})()`);

const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

inBrowser(
  'twenty reports answer on their first screen who held the lock, who else, when, why, and what would have prevented it',
  async (browser) => {
    expect(TWENTY).toHaveLength(20);
    const { page, context, problems } = await openPage(browser, pageOf('S03').url);
    const reports = TWENTY.map(({ id }) => ({ id, ...pageOf(id) }));
    const shown = [DESK, PHONE].flatMap((size) => reports.map((report) => ({ size, ...report })));
    for (const { size, id, url, payload } of shown) {
      await page.setViewportSize(size);
      await page.goto(url);
      await settled(page);
      const seen = await seenIn(page);
      const { heading } = payload.taken ?? { heading: null };
      const { answers } = heading ?? { answers: null };
      const prevented = payload.source.kind === 'schedule' ? (payload.source.prevented ?? []) : [];
      // In words, for everybody: what the report knows stands there, and in the name of the picture.
      expect([
        id,
        seen.answers['held by'],
        seen.answers['and by'],
        seen.answers['went wrong'],
        seen.answers.why,
      ]).toEqual([id, answers?.holder, answers?.other, answers?.when, answers?.why]);
      expect(seen.answers['prevented by']).toBe(prevented.join(' or ') || 'none of the mitigations that were tried');
      expect(seen.label).toContain(heading?.sentences[0]);
      // In the picture: who believed, when it went wrong, what led there, and what would have helped.
      expect([id, seen.beliefs > 0 || answers?.holder === 'nobody', seen.rules > 0, seen.path > 0]).toEqual([
        id,
        true,
        true,
        true,
      ]);
      expect(seen.wrong.some((it) => it.startsWith('✗ ') && /ms$/.test(it))).toBe(true);
      expect([id, seen.prevented.length]).toEqual([id, prevented.length > 0 ? 1 : 0]);
      // A narrow picture is longer than the screen; its words on what went wrong are on it.
      const off = seen.off.filter((it) => size === DESK || !/^[a-z]/.test(it));
      expect({ id, size, off, problems }).toEqual({ id, size, off: [], problems: [] });
    }
    await context.close();
  },
  120_000,
);

inBrowser('on a phone, verdict, sentence and picture are on the first screen, and stay there', async (browser) => {
  const { url } = pageOf('S03');
  const { page, context } = await openPage(browser, url);
  await page.setViewportSize(PHONE);
  await page.reload();
  await page.waitForSelector('[data-run="here"]', { state: 'attached' });
  const before = await seenIn(page);
  expect(before.off).toEqual([]);
  expect(before.top).toBeLessThan(300);
  await page.mouse.wheel(0, 600);
  await page.evaluate('scrollTo(0, 500)');
  expect((await seenIn(page)).off).toEqual([]);
  await context.close();
});

inBrowser('cards follow pointer and keys, Esc closes what is open, and it plays', async (browser) => {
  const { url } = pageOf('S03');
  const { page, context, problems } = await openPage(browser, `${url}#event=0`);
  const card = page.locator('.card');
  for (const [selector, words] of [
    ['.stage rect.key', 'n0 has A'],
    ['.stage rect.belief', 'c1 believes that it holds A'],
    ['.stage rect.down', 'n2 is down'],
  ] as const) {
    const box = await page.locator(selector).first().boundingBox();
    if (box === null) throw new Error(`there is no ${selector}`);
    await page.mouse.move(box.x + box.width - 16, box.y + box.height - 4);
    await expect.poll(() => card.innerText()).toContain(words);
  }
  await page.getByRole('region', { name: 'Picture of the run' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => card.innerText()).toContain('c1 SET A');
  await page.keyboard.press('?');
  expect(await page.locator('.help').count()).toBe(1);
  await page.keyboard.press('Escape');
  await expect.poll(() => Promise.all([page.locator('.help').count(), card.count()])).toEqual([0, 0]);
  await page.getByLabel('speed').selectOption('25');
  await page.getByRole('button', { name: 'play' }).click();
  await expect.poll(() => page.locator('.when').innerText(), { timeout: 20_000 }).toContain('event 53 ');
  await expect.poll(() => page.getByRole('button', { name: 'play' }).getAttribute('aria-pressed')).toBe('false');
  expect(problems).toEqual([]);
  await context.close();
});

inBrowser(
  'with something changed, the page says what became of the violation, and does not call it safe and broken',
  async (browser) => {
    const { url } = pageOf('S03');
    const { page, context } = await openPage(browser, `${url}#with=persistence%3Dalways`);
    await expect.poll(() => page.locator('h1').innerText()).toBe('✓ safe with persistence=always');
    expect(await page.locator('.became').innerText()).toBe(
      'The violation of mutual exclusion from 4 ms on is gone: c2 gives up: others hold it.',
    );
    expect(await page.locator('header').innerText()).not.toContain('votes twice');
    await page.goto(`${url}#with=votes-wanted%3Dall`);
    await expect
      .poll(() => page.locator('.became').innerText())
      .toContain('stays: it lasts 9 848 ms instead of 9 894 ms');
    expect(await page.locator('h1').getAttribute('class')).toBe('bad');
    await context.close();
  },
);
