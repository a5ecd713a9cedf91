/*
 * `npm run -s bench:report`: how large the page of a run is, how long a step and panning take in it, and how soon the
 * playground shows a violation; measured in Chromium.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import { machineLine } from '../../bench/machine.js';
import { textTable } from '../../cli/text-table.js';
import { judge } from '../../properties/judge.js';
import { loadCatalogue } from '../../scenarios/catalogue.js';
import type { Scenario, Schedule } from '../../scenarios/index.js';
import { formatCount } from '../../text/format.js';
import { htmlReport } from '../html.js';
import { payloadOf } from '../index.js';
import { playgroundPage } from '../playground/index.js';
import { viewerFiles } from '../viewer-files.js';
import { launchChromium, openPage } from './browser.js';
import { longSchedule } from './long-run.js';

/** Rounds of a run of a little more than 100 000 events. */
const ROUNDS = 650;
const STEPS = 100;
/** Wanted of the median and the worst, ms. */
const STEP_MS = 16;
const AIM_MS = 50;

interface Written {
  readonly events: number;
  readonly bytes: number;
  readonly url: string;
}

function written(folder: string, id: string, schedule: Schedule, scenario: Scenario | null): Written {
  const judgement = judge(schedule, [], true);
  const html = htmlReport(payloadOf({ id, schedule, scenario, judgement, replay: `lockstep replay ${id}` }));
  const path = join(folder, `${id}.html`);
  writeFileSync(path, html);
  return { events: judgement.run.trace.length, bytes: Buffer.byteLength(html), url: pathToFileURL(path).href };
}

/*
 * Both run in the page; texts, because this file knows of no window. A step: what is done from a key, or a leap, until it is
 * painted, ms, without the wait for the frame to begin. A screen of 60 Hz begins one every 16.7 ms, whatever is done.
 */
const STEP_IN_PAGE = `async (what) => {
  const nextFrame = () =>
    new Promise((resolve) =>
      requestAnimationFrame(() => {
        const begun = performance.now();
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => resolve(performance.now() - begun);
        port2.postMessage(0);
      }),
    );
  await nextFrame();
  const from = performance.now();
  if (what.startsWith('#')) location.hash = what;
  else dispatchEvent(new KeyboardEvent('keydown', { key: what, bubbles: true }));
  // What is rendered is rendered in the turns that follow at once.
  for (let turn = 0; turn < 5; turn++) await null;
  const rendered = performance.now() - from;
  return rendered + (await nextFrame());
}`;

/** Scrolls the picture, a bit in each frame. Returns the times at which the frames began, ms. */
const PAN_IN_PAGE = `async ([frames, pixels]) => {
  const box = document.querySelector('.scroll');
  const times = [];
  for (let i = 0; i <= frames; i++) {
    times.push(await new Promise(requestAnimationFrame));
    box.scrollLeft += pixels;
  }
  return times;
}`;

interface Times {
  /** On the clock of the wall. */
  readonly wall: readonly number[];
  /** What it cost the thread of the page: less disturbed by what else the machine does. */
  readonly cpu: readonly number[];
}

/** What the thread of the page has done so far, ms. */
async function clockOf(page: Page): Promise<() => Promise<number>> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return 1000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0);
  };
}

async function timesOf(page: Page, whats: readonly string[]): Promise<Times> {
  const spent = await clockOf(page);
  const [wall, cpu]: [number[], number[]] = [[], []];
  for (const what of whats) {
    const before = await spent();
    wall.push(await page.evaluate(`(${STEP_IN_PAGE})(${JSON.stringify(what)})`));
    cpu.push((await spent()) - before);
  }
  return { wall, cpu };
}

const sorted = (times: readonly number[]): number[] => [...times].sort((a, b) => a - b);
const medianOf = (times: readonly number[]): number => sorted(times)[Math.floor(times.length / 2)] ?? 0;
const worstOf = (times: readonly number[]): number => sorted(times).at(-1) ?? 0;

function row(name: string, { wall, cpu }: Times): string[] {
  return [name, ...[medianOf(wall), worstOf(wall), medianOf(cpu), worstOf(cpu)].map((ms) => ms.toFixed(1))];
}

const FRAME_MS = 1000 / 60;
const FRAMES = 300;
/** As fast as a hand scrolls, and as fast as one that looks for something, pixels a frame. */
const PACES = [20, 120];

/** An event of a trace of Chromium, as far as it is looked at. Times are µs. */
interface Traced {
  readonly name: string;
  readonly tid: number;
  readonly ts: number;
  /** What it cost its thread. */
  readonly tdur?: number;
}

/** Does something, and returns what the thread of the page did for each frame meanwhile, ms of the processor. */
async function framesOf(page: Page, act: () => Promise<void>): Promise<number[]> {
  const session = await page.context().newCDPSession(page);
  const traced: Traced[] = [];
  session.on('Tracing.dataCollected', ({ value }) => traced.push(...(value as unknown as Traced[])));
  const complete = new Promise<void>((resolve) => session.once('Tracing.tracingComplete', () => resolve()));
  await session.send('Tracing.start', { traceConfig: { includedCategories: ['devtools.timeline', 'toplevel'] } });
  await act();
  await session.send('Tracing.end');
  await complete;
  const frames = traced.filter(({ name }) => name === 'FireAnimationFrame').sort((a, b) => a.ts - b.ts);
  const tasks = traced.filter(({ name, tid }) => name === 'ThreadControllerImpl::RunTask' && tid === frames[0]?.tid);
  return frames.slice(0, -1).map(({ ts }, i) => {
    const end = frames[i + 1]?.ts ?? ts;
    const own = tasks.filter((task) => task.ts >= ts && task.ts < end);
    return own.reduce((sum, { tdur = 0 }) => sum + tdur, 0) / 1000;
  });
}

/** Frames that did not come, and what each that came cost the thread of the page. */
async function panned(browser: Browser, { url, events }: Written): Promise<string[][]> {
  const rows: string[][] = [];
  for (const [name, view] of VIEWS) {
    const { page, context } = await openPage(browser, `${url}#event=${Math.floor(events * 0.1)}&${view}`);
    for (const pixels of PACES) {
      let times: readonly number[] = [];
      const cpu = await framesOf(page, async () => {
        times = await page.evaluate(`(${PAN_IN_PAGE})([${FRAMES}, ${pixels}])`);
      });
      const gaps = times.slice(1).map((at, i) => at - (times[i] ?? at));
      const dropped = gaps.reduce((sum, gap) => sum + Math.max(0, Math.round(gap / FRAME_MS) - 1), 0);
      const costs = [medianOf(cpu), worstOf(cpu)].map((ms) => ms.toFixed(1));
      const late = cpu.filter((ms) => ms > FRAME_MS).length;
      rows.push([`${name}, ${pixels} px a frame`, String(dropped), ...costs, String(late)]);
    }
    await context.close();
  }
  return rows;
}

const VIEWS = [
  ['folded time', 'axis=folded'],
  ['folded time, narrowest', 'axis=folded&zoom=0.001'],
  ['order of events', 'axis=order'],
  ['order of events, narrowest', 'axis=order&zoom=0.001'],
  ['true time', 'axis=true'],
  ['as c1 saw it', 'axis=c1'],
] as const;
const SHARES = [0.001, 0.99, 0.2, 0.8, 0.5, 0.65, 0.1];

/** Single steps, those within a lane, and leaps to the other end of a run. */
async function timed(
  browser: Browser,
  { url, events }: Written,
): Promise<{ readonly rows: string[][]; readonly steps: Times }> {
  const rows: string[][] = [];
  const [wall, cpu]: [number[], number[]] = [[], []];
  for (const [name, view] of VIEWS) {
    const at = (share: number): string => `#event=${Math.floor(events * share)}&${view}`;
    const { page, context } = await openPage(browser, url + at(0.5));
    const keys = [...Array<string>(STEPS).fill('ArrowRight'), ...Array<string>(STEPS).fill(']'), 'c', 'm', 'v', 'n'];
    const steps = await timesOf(page, keys);
    rows.push(row(`${name}: steps`, steps));
    wall.push(...steps.wall);
    cpu.push(...steps.cpu);
    rows.push(row(`${name}: leaps`, await timesOf(page, SHARES.map(at))));
    await context.close();
  }
  return { rows, steps: { wall, cpu } };
}

/** Runs in the page before anything else does: notes when the first violation stands there, ms from the begin of the load. */
const FIRST_VIOLATION = `new MutationObserver((_, it) => {
  if (document.querySelector('[data-verdict=violated]') === null) return;
  globalThis.firstViolation = performance.now();
  it.disconnect();
}).observe(document, { subtree: true, childList: true });`;

const LOADS = 10;

/** How long the playground takes from its load to the violation of its demonstration, and its process, in a new context each time. */
async function demonstrated(browser: Browser, folder: string): Promise<Times> {
  const session = await browser.newBrowserCDPSession();
  const spent = async (): Promise<number> => {
    const { processInfo } = await session.send('SystemInfo.getProcessInfo');
    return 1000 * processInfo.reduce((sum, { type, cpuTime }) => sum + (type === 'renderer' ? cpuTime : 0), 0);
  };
  const tour = readFileSync(new URL('../../docs/tour.md', import.meta.url), 'utf8');
  const path = join(folder, 'playground.html');
  writeFileSync(path, playgroundPage({ scenarios: loadCatalogue(), tour }));
  const [wall, cpu]: [number[], number[]] = [[], []];
  for (let i = 0; i < LOADS; i++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.addInitScript(FIRST_VIOLATION);
    const before = await spent();
    await page.goto(pathToFileURL(path).href);
    await page.waitForSelector('[data-verdict=violated]');
    cpu.push((await spent()) - before);
    wall.push(await page.evaluate<number>('globalThis.firstViolation'));
    await context.close();
  }
  return { wall, cpu };
}

const folder = mkdtempSync(join(tmpdir(), 'lockstep-bench-report-'));
try {
  const gzipped = (text: string): string => formatCount(gzipSync(text, { level: 9 }).length);
  const { script, style, engine } = viewerFiles();
  const s03 = loadCatalogue().find(({ id }) => id === 'S03');
  if (s03 === undefined) throw new Error('S03 is gone');
  const short = written(folder, 'S03', s03.schedule, s03);
  const long = written(folder, 'long', longSchedule(ROUNDS), null);
  const sizes = [
    [
      'viewer (JS and CSS), gzip -9',
      `${formatCount(gzipSync(script, { level: 9 }).length + gzipSync(style, { level: 9 }).length)}`,
    ],
    ['engine, gzip -9; started only for running schedules', gzipped(engine)],
    [`report of S03 (${formatCount(short.events)} events), on disk`, formatCount(short.bytes)],
    [`report of ${formatCount(long.events)} events, on disk`, formatCount(long.bytes)],
  ];
  process.stdout.write(`${textTable(['what', 'bytes'], sizes, 1)}\n\n`);
  const browser = await launchChromium();
  const { rows, steps } = await timed(browser, long);
  const heads = [`${formatCount(long.events)} events, ms`, 'median', 'worst', 'CPU median', 'CPU worst'];
  process.stdout.write(
    `${textTable(heads, rows, 1)}\n\n` +
      `${formatCount(steps.wall.length)} steps: median ${medianOf(steps.wall).toFixed(1)} ms (wanted ${STEP_MS}), worst ${worstOf(steps.wall).toFixed(1)} ms (wanted ${AIM_MS}); ` +
      `CPU ${medianOf(steps.cpu).toFixed(1)} and ${worstOf(steps.cpu).toFixed(1)} ms\n\n`,
  );
  const first = await demonstrated(browser, folder);
  const panHeads = [`panning, ${FRAMES} frames`, 'dropped', 'CPU median, ms', 'CPU worst, ms', 'over 16.7 ms'];
  process.stdout.write(
    `${textTable(panHeads, await panned(browser, long), 1)}\n\n` +
      `playground, from load to the first violation, ${LOADS} loads: median ${medianOf(first.wall).toFixed(0)} ms, worst ${worstOf(first.wall).toFixed(0)} ms (wanted 1000), CPU ${medianOf(first.cpu).toFixed(0)} ms\n` +
      `${machineLine()}, Chromium ${browser.version()}, load ${loadavg()[0]?.toFixed(1)}\n`,
  );
  await browser.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
