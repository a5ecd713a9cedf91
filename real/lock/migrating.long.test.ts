import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const README = readFileSync(new URL('README.md', import.meta.url), 'utf8');

interface Guide {
  readonly title: string;
  readonly old: string;
  readonly new: string;
}

/** The lines of a diff that one side has. */
function sideOf(diff: string, sign: '-' | '+'): string {
  const lines = diff.split('\n').filter((line) => line === '' || line.startsWith(' ') || line.startsWith(sign));
  return lines.map((line) => line.slice(1)).join('\n');
}

const GUIDES: readonly Guide[] = README.split(/^### From /m)
  .slice(1)
  .flatMap((section) => {
    const [title = ''] = section.split('\n');
    const diffs = [...section.matchAll(/```diff\n(.*?)```/gs)].map(([, diff = '']) => diff);
    return diffs.map((diff) => ({ title, old: sideOf(diff, '-'), new: sideOf(diff, '+') }));
  });

/** Which version the name `redlock` stands for, by the title of the guide. */
const REDLOCKS: Readonly<Record<string, string>> = { 'node-redlock 4': 'redlock4', 'node-redlock 5': 'redlock5' };

/** While one side holds the lock the other is kept out, and gets it afterwards. */
const PROGRAM = `
  import * as old from './old.mjs';
  import * as now from './new.mjs';
  const met = [];
  for (const [holder, other] of [[old, old], [old, now], [now, old], [now, now]]) {
    let end;
    const work = new Promise((resolve) => (end = () => resolve('charged')));
    let holding;
    const began = new Promise((resolve) => (holding = holder.charge(42, () => (resolve(), work))));
    await began;
    let ranBoth = false;
    const second = await other.charge(42, async () => (ranBoth = true)).catch(() => 'busy');
    end();
    met.push({ first: await holding, second, ranBoth, after: await other.charge(42, async () => 'charged') });
  }
  console.log(JSON.stringify(met));
  process.exit();`;

describe.skipIf(!canRunOnRedis('guides for migration', 'processes'))('the guide for migration from', () => {
  let nodes: Provision;
  beforeAll(async () => {
    nodes = await provision({ nodes: 3, sources: ['processes'] });
  });
  afterAll(() => nodes?.stop());

  test('four libraries, and a drop-in', () => {
    const titles = GUIDES.map(({ title }) => title);
    expect(titles).toEqual([
      'node-redlock 5',
      'node-redlock 5',
      'node-redlock 4',
      'redis-semaphore',
      'redlock-universal',
    ]);
  });

  test.each(GUIDES)('$title runs on both sides, and beside each other', async (guide) => {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-migrating-'));
    const modules = join(folder, 'node_modules');
    mkdirSync(modules);
    const { [guide.title]: redlock } = REDLOCKS;
    if (redlock !== undefined) symlinkSync(join(ROOT, 'node_modules', redlock), join(modules, 'redlock'));
    for (const name of ['ioredis', 'lockstep-redlock', 'redis-semaphore', 'redlock-universal']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
    }
    const ports = nodes.urls.map((url) => Number(new URL(url).port));
    for (const side of ['old', 'new'] as const) {
      writeFileSync(join(folder, `${side}.mjs`), guide[side].replace('7001, 7002, 7003', ports.join(', ')));
    }
    writeFileSync(join(folder, 'both.mjs'), PROGRAM);
    const { stdout } = await promisify(execFile)(process.execPath, ['both.mjs'], { cwd: folder, timeout: 120_000 });
    const met = { first: 'charged', second: 'busy', ranBoth: false, after: 'charged' };
    expect(JSON.parse(stdout)).toEqual([met, met, met, met]);
    await rm(folder, { recursive: true });
  });
});
