import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { isRequired } from '../../real/provisioner/index.js';

const PLACES = [
  process.env.LOCKSTEP_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** A browser of this machine; `null`, said loudly, where there is none, and an error where one is required. */
export async function findBrowser(): Promise<Browser | null> {
  const executablePath = PLACES.find((it) => it !== undefined && existsSync(it));
  if (executablePath === undefined) {
    const message =
      'no Chromium is here; install it (Debian: apt-get install chromium), or name one in LOCKSTEP_CHROMIUM';
    if (isRequired('browser')) throw new Error(`LOCKSTEP_REQUIRE names browser, but ${message}`);
    console.warn(`SKIPPED: the tests of the report in a browser. ${message}`);
    return null;
  }
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'];
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run', ...quiet] });
}

/** A page that is cut off from the network, with everything that goes wrong in it. */
export interface Watched {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly problems: string[];
}

/** Opens a file the way a person would, offline. */
export async function openPage(browser: Browser, url: string, dark = false): Promise<Watched> {
  const context = await browser.newContext({
    offline: true,
    viewport: { width: 1280, height: 1000 },
    colorScheme: dark ? 'dark' : 'light',
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith('file:')) problems.push(`asks for ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector('h1[data-verdict]');
  await settled(page);
  return { page, context, problems };
}

/** Waits until a page that runs its schedule again has done so. */
export async function settled(page: Page): Promise<void> {
  await page.waitForSelector('[data-run="here"], .recording', { state: 'attached' });
}
