/*
 * `npm run docs:screenshots`: what people see of reports, at the size of a desk and of a phone, in both colour schemes, as PNG with a palette in
 * docs/pictures. Every page is made by the command that a person would type.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { formatSchedule } from '../../scenarios/index.js';
import { formatCount } from '../../text/format.js';
import { launchChromium } from './browser.js';
import { longSchedule } from './long-run.js';
import { palettePng } from './palette-png.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PICTURES = join(ROOT, 'docs', 'pictures');
const SIZES = [
  { name: 'desk', width: 1440, height: 900 },
  { name: 'phone', width: 390, height: 844 },
];
/** Rounds of a run of about 1 800 events. */
const ROUNDS = 11;
const PAINTED_MS = 700;

/** The pages, by name, written into a folder. */
function pagesIn(folder: string): Readonly<Record<string, string>> {
  // As it is called where it is installed: pages name commands.
  const bin = join(folder, 'node_modules', '.bin', 'lockstep');
  mkdirSync(dirname(bin), { recursive: true });
  symlinkSync(join(ROOT, 'dist', 'cli', 'main.js'), bin);
  const lockstep = (...argv: readonly string[]): string => {
    try {
      return execFileSync(process.execPath, [bin, ...argv], { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
    } catch (error) {
      // A violation that was found is no failure here.
      if (error instanceof Error && 'stdout' in error && 'status' in error && error.status === 1)
        return String(error.stdout);
      throw error;
    }
  };
  const written = (name: string, html: string): string => {
    writeFileSync(join(folder, name), html);
    return name;
  };
  const playgroundIn = (name: string): string => {
    lockstep('playground', name);
    return join(name, 'index.html');
  };
  lockstep('check', '--demo', '--report', 'first.html');
  writeFileSync(join(folder, 'long.json'), formatSchedule(longSchedule(ROUNDS)));
  copyFileSync(join(ROOT, 'examples', 'custom-lock', 'my-lock.ts'), join(folder, 'my-lock.ts'));
  lockstep('audit', 'my-lock.ts');
  const found = readdirSync(join(folder, '.lockstep', 'audit')).find((it) => it.endsWith('.html'));
  lockstep('check', '--runs', '2000', '--ttl', '10s', '--no-config', '--report', 'pass.html');
  lockstep('sweep', 'ttl=1s..30s', 'drift=0..1%', '--report', 'map.html');
  return {
    first: 'first.html',
    long: written('long.html', lockstep('replay', 'long.json', '--format', 'html')),
    library: join('.lockstep', 'audit', found ?? 'missing.html'),
    pass: 'pass.html',
    map: 'map.html',
    playground: playgroundIn('playground'),
    diff: written('diff.html', lockstep('replay', 'S03', '--diff', 'S04', '--format', 'html')),
  };
}

/** Runs in a page: the pixels of a PNG in at most 256 colours, those that are seen most. */
const INDEXED = `async (png) => {
  const bitmap = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob());
  const { width, height } = bitmap;
  const pen = new OffscreenCanvas(width, height).getContext('2d');
  pen.drawImage(bitmap, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  const counts = new Map();
  const rough = (i) => ((data[i] >> 2) << 12) | ((data[i + 1] >> 2) << 6) | (data[i + 2] >> 2);
  const exact = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const key = rough(i);
    counts.set(key, (counts.get(key) ?? 0) + 1);
    if (!exact.has(key)) exact.set(key, [data[i], data[i + 1], data[i + 2]]);
  }
  const top = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 128).map(([key]) => exact.get(key));
  const nearest = new Map();
  const placeOf = (key) => {
    if (nearest.has(key)) return nearest.get(key);
    const [r, g, b] = exact.get(key);
    let [best, least] = [0, Infinity];
    top.forEach(([x, y, z], i) => {
      const far = (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
      if (far < least) [best, least] = [i, far];
    });
    nearest.set(key, best);
    return best;
  };
  let pixels = '';
  for (let i = 0; i < data.length; i += 4) pixels += String.fromCharCode(placeOf(rough(i)));
  return { width, height, palette: top.flat(), pixels: btoa(pixels) };
}`;

async function smaller(page: Page, png: Buffer): Promise<Buffer> {
  const { pixels, ...rest }: { width: number; height: number; palette: number[]; pixels: string } = await page.evaluate(
    `(${INDEXED})(${JSON.stringify(png.toString('base64'))})`,
  );
  return palettePng({ ...rest, pixels: Buffer.from(pixels, 'base64') });
}

async function shoot(browser: Browser, folder: string): Promise<void> {
  const painter = await (await browser.newContext()).newPage();
  let sum = 0;
  for (const [name, file] of Object.entries(pagesIn(folder))) {
    for (const { name: size, width, height } of SIZES) {
      for (const colorScheme of ['light', 'dark'] as const) {
        const context = await browser.newContext({ viewport: { width, height }, colorScheme, offline: true });
        const page = await context.newPage();
        await page.goto(pathToFileURL(join(folder, file)).href);
        await page.waitForSelector('h1');
        if (name === 'playground') await page.getByText('Made small').waitFor();
        await page.waitForTimeout(PAINTED_MS);
        const small = await smaller(painter, await page.screenshot());
        sum += small.length;
        writeFileSync(join(PICTURES, `${name}-${size}-${colorScheme}.png`), small);
        await context.close();
      }
    }
  }
  process.stdout.write(`wrote ${formatCount(sum)} bytes of pictures\n`);
}

const folder = mkdtempSync(join(tmpdir(), 'lockstep-screenshots-'));
const browser = await launchChromium();
try {
  await shoot(browser, folder);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
