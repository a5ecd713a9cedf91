import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findScenario } from '../scenarios/catalogue.js';
import { formatScenario, formatSchedule } from '../scenarios/index.js';
import { FAILURES } from './failure-file.js';
import { REGRESSIONS } from './regressions.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

const FIND = ['check', '--past', 'step', '--seed', 'known'];
const SEARCH = ['check', '--runs', '100'];

/** A folder with committed schedules. */
function withFiles(files: Readonly<Record<string, string>>, folder = REGRESSIONS): string {
  const cwd = emptyFolder();
  mkdirSync(join(cwd, folder), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, folder, name), text);
  return cwd;
}

const S03 = findScenario('S03');

test('a found failure is replayed before the next search', async () => {
  const cwd = emptyFolder();
  expect((await lockstep(FIND, { cwd })).code).toBe(1);
  const { code, stdout } = await lockstep(SEARCH, { cwd });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Replayed 1 known schedule first: reproduced\.\nSearching 100 schedules /);
});

test('a failure that no longer reproduces ends the search before it began, with 3', async () => {
  const cwd = emptyFolder();
  await lockstep(FIND, { cwd });
  const name = readdirSync(join(cwd, FAILURES)).find((it) => it.endsWith('.json')) ?? '';
  const path = `${FAILURES}/${name}`;
  const text = readFileSync(join(cwd, path), 'utf8').replace(/"hash": "[0-9a-f]{16}"/, '"hash": "0123456789abcdef"');
  writeFileSync(join(cwd, path), text);

  const { code, stdout } = await lockstep(SEARCH, { cwd });
  expect(code).toBe(3);
  expect(stdout).toContain(`✗ not reproduced   ${path}\n  expected the trace hash 0123456789abcdef, but it is `);
  expect(stdout).toContain(`lockstep replay ${path}   shows it`);
  expect(stdout).not.toContain('Searching');

  const json = await lockstep([...SEARCH, '--json'], { cwd });
  expect(json.code).toBe(3);
  expect(JSON.parse(json.stdout)).toMatchObject({
    schema: 'lockstep.check/1',
    verdict: 'inconclusive',
    runs: 0,
    reason: 'a known schedule no longer reproduces',
    regressions: { total: 1, unreproduced: [{ path }] },
  });

  expect((await lockstep([...SEARCH, '--no-regressions'], { cwd })).code).toBe(0);
});

test('committed schedules are replayed, in the usual folder or in one that is named', async () => {
  const files = {
    'b.json': formatScenario(S03),
    'a.json': formatSchedule({ ...S03.schedule, faults: [] }),
    'notes.txt': '',
  };
  expect((await lockstep(SEARCH, { cwd: withFiles(files) })).stdout).toMatch(/^Replayed 2 known schedules first/);
  const cwd = withFiles(files, 'mine');
  expect((await lockstep(SEARCH, { cwd })).stdout).not.toContain('Replayed');
  const named = await lockstep([...SEARCH, '--regressions', 'mine', '--json'], { cwd });
  expect(JSON.parse(named.stdout).regressions).toEqual({ total: 2, unreproduced: [] });
});

test('a schedule without an expectation has to be safe', async () => {
  const { code, stdout } = await lockstep(SEARCH, { cwd: withFiles({ 'bare.json': formatSchedule(S03.schedule) }) });
  expect(code).toBe(3);
  expect(stdout).toContain(`${REGRESSIONS}/bare.json\n  expected safe, but it is violated`);
});

test('what is wrong with a folder or a file is said in a sentence', async () => {
  const missing = await lockstep([...SEARCH, '--regressions', 'nowhere']);
  expect(missing).toMatchObject({ code: 64, stdout: '' });
  expect(missing.stderr).toBe('lockstep: --regressions: there is no folder "nowhere"\n');
  const broken = await lockstep(SEARCH, { cwd: withFiles({ 'x.json': '{"schema": "lockstep.schedule/1"' }) });
  expect(broken.code).toBe(64);
  expect(broken.stderr).toContain(`${REGRESSIONS}/x.json`);
});

test('a demonstration is the same each time', async () => {
  const cwd = withFiles({ 'bare.json': formatSchedule(S03.schedule) });
  expect((await lockstep(['check', '--demo'], { cwd })).code).toBe(0);
});
