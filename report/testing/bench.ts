/*
 * `npm run -s bench:report`: how large the page of a run is, and how long a step in it takes, measured in Chromium.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
import { viewerFiles } from '../viewer-files.js';
import { launchChromium, openPage } from './browser.js';
import { longSchedule } from './long-run.js';

/** Rounds of a run of a little more than 100 000 events. */
const ROUNDS = 650;
const STEPS = 100;
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

/** Runs in the page; a text, because this file knows of no window. From a key, or a leap, until what it did is painted, ms. */
const IN_PAGE = `async (what) => {
  const painted = () =>
    new Promise((resolve) =>
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = resolve;
        port2.postMessage(0);
      }),
    );
  await painted();
  const from = performance.now();
  if (what.startsWith('#')) location.hash = what;
  else dispatchEvent(new KeyboardEvent('keydown', { key: what, bubbles: true }));
  await painted();
  return performance.now() - from;
}`;

interface Times {
  /** Until it was painted, on the clock of the wall. */
  readonly wall: readonly number[];
  /** What it cost the thread of the page: less disturbed by what else the machine does. */
  readonly cpu: readonly number[];
}

async function timesOf(page: Page, whats: readonly string[]): Promise<Times> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const spent = async (): Promise<number> => {
    const { metrics } = await session.send('Performance.getMetrics');
    return 1000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0);
  };
  const [wall, cpu]: [number[], number[]] = [[], []];
  for (const what of whats) {
    const before = await spent();
    wall.push(await page.evaluate(`(${IN_PAGE})(${JSON.stringify(what)})`));
    cpu.push((await spent()) - before);
  }
  return { wall, cpu };
}

function row(name: string, { wall, cpu }: Times): string[] {
  const middleAndWorst = (times: readonly number[]): string[] => {
    const sorted = [...times].sort((a, b) => a - b);
    return [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)].map((it) => (it ?? 0).toFixed(1));
  };
  return [name, ...middleAndWorst(wall), ...middleAndWorst(cpu)];
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
async function timed(browser: Browser, { url, events }: Written): Promise<string[][]> {
  const rows: string[][] = [];
  for (const [name, view] of VIEWS) {
    const at = (share: number): string => `#event=${Math.floor(events * share)}&${view}`;
    const { page, context } = await openPage(browser, url + at(0.5));
    const keys = [...Array<string>(STEPS).fill('ArrowRight'), ...Array<string>(STEPS).fill(']'), 'c', 'm', 'v', 'n'];
    rows.push(row(`${name}: steps`, await timesOf(page, keys)));
    rows.push(row(`${name}: leaps`, await timesOf(page, SHARES.map(at))));
    await context.close();
  }
  return rows;
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
  const rows = await timed(browser, long);
  const heads = [`${formatCount(long.events)} events, ms`, 'median', 'worst', 'CPU median', 'CPU worst'];
  const worst = Math.max(...rows.map(([, , most]) => Number(most)));
  process.stdout.write(
    `${textTable(heads, rows, 1)}\n\n` +
      `worst of all: ${worst.toFixed(1)} ms; the aim is ${AIM_MS} ms on a machine that does nothing else\n` +
      `${machineLine()}, Chromium ${browser.version()}, load ${loadavg()[0]?.toFixed(1)}\n`,
  );
  await browser.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
