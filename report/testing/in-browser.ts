import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, type TestContext, test } from 'vitest';
import { canRun } from '../../real/testing/can-run.js';
import { CHROMIUM, launchChromium, NO_CHROMIUM } from './browser.js';

/** Defines one test that runs in a browser. */
type DefineTest = (
  name: string,
  body: (browser: Browser, context: TestContext) => Promise<void>,
  timeoutMs?: number,
) => void;

/**
 * What defines the tests of a file that share a browser; where there is none they are skipped loudly.
 *
 * @param suite - Its name, for the message that says so.
 */
export function browserTests(suite: string): DefineTest {
  const isHere = canRun(suite, 'browser', CHROMIUM === undefined ? NO_CHROMIUM : undefined);
  let browser: Browser | undefined;
  beforeAll(async () => {
    if (isHere) browser = await launchChromium();
  });
  afterAll(() => browser?.close());
  return (name, body, timeoutMs) =>
    test.skipIf(!isHere)(
      name,
      async (context) => {
        if (browser === undefined) throw new Error('the browser has not started');
        await body(browser, context);
      },
      timeoutMs,
    );
}
