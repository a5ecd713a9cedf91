import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { findScenario } from '../scenarios/catalogue.js';
import { formatScenario, formatSchedule } from '../scenarios/index.js';
import { FAILURES } from './failure-file.js';
import { REGRESSIONS, settingsOf } from './regressions.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

const FIND = ['check', '--exceed', 'clock-step', '--seed', 'known'];
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
  expect(stdout).toMatch(
    /^Replayed 1 known schedule first: reproduced\.\n {2}– still fails {3}\.lockstep\/failures\/\S+\.json\nSearching 100 /,
  );
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
  expect(JSON.parse(named.stdout).regressions).toEqual({
    total: 2,
    unreproduced: [],
    settings: [],
    failures: [{ path: 'mine/b.json', committed: true, stillFails: true }],
  });
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

const MENDED = ['--persistence', 'always'];
const UNMENDED = ['--persistence', 'none', '--restart-delay', '0'];

describe('a committed failure', () => {
  const committed = () => withFiles({ 'restart.json': formatScenario(S03) });

  it('passes with settings that prevent it', async () => {
    const { code, stdout } = await lockstep([...SEARCH, '--faults', 'crash=1', ...MENDED], { cwd: committed() });
    expect(stdout).toContain(
      `reproduced.\n  ✓ now passes with your settings   ${REGRESSIONS}/restart.json\n  (persistence=always)\nSearching `,
    );
    expect(code).toBe(0);
  });

  it('passes with those of the configuration', async () => {
    const cwd = committed();
    writeFileSync(join(cwd, 'lockstep.config.json'), JSON.stringify({ check: { 'restart-delay': 'ttl' } }));
    const { regressions } = JSON.parse((await lockstep([...SEARCH, '--json'], { cwd })).stdout);
    expect(regressions).toMatchObject({ settings: ['restart-delay=ttl'], failures: [{ stillFails: false }] });
  });

  it('that still fails with the settings given is a failure, whatever the search comes to', async () => {
    const argv = ['check', '--runs', '100', '--faults', 'crash=1', ...UNMENDED, '--properties', 'cleanup'];
    const { code, stdout } = await lockstep(argv, { cwd: committed() });
    expect(stdout).toContain(
      `  ✗ still fails with your settings   ${REGRESSIONS}/restart.json\n  (persistence=none, restart-delay=0us)\n`,
    );
    expect(stdout).toContain('✓ passed');
    expect(code).toBe(1);
    const junit = await lockstep([...argv, '--reporter', 'junit'], { cwd: committed() });
    expect(junit.code).toBe(1);
    expect(junit.stdout).toContain(`name="known failure ${REGRESSIONS}/restart.json"`);
    expect(junit.stdout).toContain('failures="1"');
  });

  it('still fails as it was found where no settings are given, which is no news', async () => {
    const { code, stdout } = await lockstep(SEARCH, { cwd: committed() });
    expect(stdout).toContain(`reproduced.\n  – still fails   ${REGRESSIONS}/restart.json\nSearching `);
    expect(code).toBe(0);
  });
});

test('a failure that was only found here is told of, and fails nothing', async () => {
  const cwd = withFiles({ 'restart.json': formatScenario(S03) }, FAILURES);
  const argv = ['check', '--runs', '100', '--faults', 'crash=1', ...UNMENDED, '--properties', 'cleanup'];
  const { code, stdout } = await lockstep(argv, { cwd });
  expect(stdout).toContain(`  – still fails with your settings   ${FAILURES}/restart.json\n`);
  expect(code).toBe(0);
});

test('each setting that is given is one of the schedule', () => {
  expect(
    settingsOf({
      shrink: true,
      profile: 'redsync-4',
      nodes: 3,
      ttl: [5_000],
      driftAllowance: 15_000,
      targetVotes: 'all',
      persistence: 'always',
      restartDelay: 2_500,
      runs: 10,
    }),
  ).toEqual([
    'policy=redsync-4',
    'nodes=3',
    'ttl=5000ms',
    'drift-allowance=1.5%',
    'votes-wanted=all',
    'persistence=always',
    'restart-delay=2500us',
  ]);
  expect(settingsOf({ shrink: true, ttl: [1_000, 2_000], faults: { only: {} } })).toEqual([]);
});
