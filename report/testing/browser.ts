import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

const PLACES = [
  process.env.LOCKSTEP_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** Where Chromium is on this machine. */
export const CHROMIUM: string | undefined = PLACES.find((it) => it !== undefined && existsSync(it));

/** What is said where it is not. */
export const NO_CHROMIUM =
  'no Chromium is here; install it (Debian: apt-get install chromium), or name one in LOCKSTEP_CHROMIUM';

/** Starts the browser of this machine. */
export async function launchChromium(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error(NO_CHROMIUM);
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'];
  const args = ['--no-sandbox', '--disable-gpu', '--no-first-run', ...quiet];
  return await chromium.launch({ executablePath: CHROMIUM, args });
}

/** A page that is cut off from the network, but for the server that it comes from, with everything that goes wrong in it. */
export interface Watched {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly problems: string[];
}

/** Opens a file the way a person would, offline. */
export async function openPage(browser: Browser, url: string, dark = false): Promise<Watched> {
  const watched = await openAny(browser, url, dark);
  await watched.page.waitForSelector('h1[data-verdict]');
  await settled(watched.page);
  return watched;
}

/** The same for a page that is no report. */
export async function openAny(browser: Browser, url: string, dark = false): Promise<Watched> {
  const context = await browser.newContext({
    offline: url.startsWith('file:'),
    viewport: { width: 1280, height: 1000 },
    colorScheme: dark ? 'dark' : 'light',
  });
  const page = await context.newPage();
  const origin = url.startsWith('file:') ? 'file:' : new URL(url).origin;
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) problems.push(`asks for ${request.url()}`);
  });
  await page.goto(url);
  return { page, context, problems };
}

const AXE_RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

interface AxeFinding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** What axe finds wrong in a page by WCAG 2.2 AA, a line each. */
export async function axeFindings(page: Page): Promise<string[]> {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  // The policy of a page forbids strange scripts; a test comes in by the side door.
  await page.evaluate(axe);
  return await page.evaluate(async (rules) => {
    const run = Reflect.get(globalThis, 'axe').run as (options: object) => Promise<{ violations: AxeFinding[] }>;
    const { violations } = await run({ runOnly: rules });
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  }, AXE_RULES);
}

/** Waits until a page that runs its schedule again has done so. */
export async function settled(page: Page): Promise<void> {
  await page.waitForSelector('[data-run="here"], .recording', { state: 'attached' });
}
