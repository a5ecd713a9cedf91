import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { isRequired } from '../../real/provisioner/index.js';
import { axeFindings, findBrowser, openAny } from '../../report/testing/browser.js';
import type { CampaignState } from '../queue/index.js';
import { middle } from '../testing/state.js';
import { servePage } from './server.js';

const CHROMIUM = [process.env.LOCKSTEP_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find(
  (it): it is string => it !== undefined && existsSync(it),
);
/** Of the page's clock, which a browser without a screen runs ahead: some rounds of asking. */
const LOOK_MS = 7_000;

function canBrowse(): boolean {
  if (CHROMIUM !== undefined) return true;
  const message =
    'no Chromium is here; install it (Debian: apt-get install chromium), or name one in LOCKSTEP_CHROMIUM';
  if (isRequired('browser')) throw new Error(`LOCKSTEP_REQUIRE names browser, but ${message}`);
  console.warn(`SKIPPED: the page of a campaign in a browser. ${message}`);
  return false;
}

/** What the page is after a while, and what the browser complained of. */
async function seen(url: string): Promise<{ readonly dom: string; readonly complaints: string[] }> {
  const { stdout, stderr } = await promisify(execFile)(
    CHROMIUM ?? '',
    [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
      ...['--enable-logging=stderr', `--user-data-dir=${mkdtempSync(join(tmpdir(), 'lockstep-browser-'))}`],
      ...[`--virtual-time-budget=${LOOK_MS}`, '--dump-dom', url],
    ],
    { timeout: 60_000, maxBuffer: 2 ** 24 },
  );
  return { dom: stdout, complaints: stderr.split('\n').filter((line) => line.includes('CONSOLE')) };
}

describe.skipIf(!canBrowse())('the page in a browser', () => {
  it('follows the campaign, by itself and without complaint', async () => {
    const first = middle();
    let asked = 0;
    const state = async (): Promise<CampaignState> => (asked++ === 0 ? first : { ...first, isOver: true, waiting: 0 });
    await using page = await servePage({ state }, 'night', 0, 0);
    const { dom, complaints } = await seen(page.url);
    expect(complaints.filter((it) => !it.includes('favicon'))).toEqual([]);
    expect(asked).toBeGreaterThan(1);
    expect(dom).toContain('<h1>Campaign night</h1>');
    expect(dom).toContain('<b>Over</b>');
    expect(dom).not.toContain('<b>At work</b>');
    // A name with HTML in it stays a name.
    expect(dom).toContain('&lt;b&gt;&amp;"');
    expect(dom).toMatch(/<polyline [^>]*points="[\d.]+,[\d.]+/);
  });

  it.each([false, true])('has nothing that axe finds wrong (dark: %s)', async (dark) => {
    await using page = await servePage({ state: async () => middle() }, 'night', 0, 0);
    const browser = await findBrowser();
    if (browser === null) throw new Error('there was one a moment ago');
    try {
      const watched = await openAny(browser, page.url, dark);
      expect(await axeFindings(watched.page)).toEqual([]);
      expect(watched.problems.filter((it) => !it.includes('favicon'))).toEqual([]);
    } finally {
      await browser.close();
    }
  });

  it('says when the server of the queue is away, and keeps what it showed', async () => {
    let asked = 0;
    const state = async (): Promise<CampaignState> => {
      if (asked++ === 0) return middle();
      throw new Error('Connection is closed.');
    };
    await using page = await servePage({ state }, 'night', 0, 0);
    const { dom } = await seen(page.url);
    expect(dom).toContain('The server of the queue does not answer: Connection is closed.');
    expect(dom).toContain('3 of 4 ranges');
  });
});
