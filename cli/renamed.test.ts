import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { nameNow } from './renamed.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

const SEARCH = ['check', '--runs', '1', '--json', '--no-regressions'];
const noteOf = (old: string, now: string): string =>
  `lockstep: ${old} is called ${now} now; the old name goes with the next version\n`;

it.each([
  ['as two words', ['--drift', '3%']],
  ['as one', ['--drift=3%']],
])('takes a flag by its old name %s, and says what it is called now', async (_, old) => {
  const { stdout, stderr } = await lockstep([...SEARCH, ...old]);
  const today = await lockstep([...SEARCH, '--drift-allowance', '3%']);
  expect([stderr, today.stderr]).toEqual([noteOf('--drift', '--drift-allowance'), '']);
  expect(JSON.parse(stdout).hash).toBe(JSON.parse(today.stdout).hash);
  expect(JSON.parse(stdout).hash).not.toBe(JSON.parse((await lockstep(SEARCH)).stdout).hash);
});

it('takes it from a configuration file too', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'lockstep.config.json'), '{ "check": { "drift": "3%", "faults": "skew=20ms" } }');
  const { stdout } = await lockstep(SEARCH, { cwd });
  const today = await lockstep([...SEARCH, '--drift-allowance', '3%', '--faults', 'clock-step=20ms']);
  expect(JSON.parse(stdout).hash).toBe(JSON.parse(today.stdout).hash);
});

it('takes faults by their old names', async () => {
  const { stdout, stderr } = await lockstep([...SEARCH, '--faults=crash=1,skew=20ms,forget']);
  const today = await lockstep([...SEARCH, '--faults', 'crash=1,clock-step=20ms,data-loss']);
  expect([stderr, today.stderr]).toEqual([noteOf('skew', 'clock-step') + noteOf('forget', 'data-loss'), '']);
  expect(JSON.parse(stdout).hash).toBe(JSON.parse(today.stdout).hash);
  const without = await lockstep([...SEARCH, '--faults', '+crash=1,-rate']);
  expect(without.stderr).toBe(noteOf('rate', 'clock-drift'));
});

it('takes classes of faults and a range of a campaign by their old names, and no word that only looks like one', async () => {
  const { stderr } = await lockstep(['campaign', '--classes', '2*skew=1ms; crash=1', '--shard', '3/2']);
  expect(stderr).toContain(noteOf('--classes', '--fault-classes') + noteOf('skew', 'clock-step'));
  expect(stderr).not.toContain('"skew"');
  const range = await lockstep(['campaign', 'range', '0', 'no-such-file.json']);
  expect(range.stderr).toContain(noteOf('range', 'rerun'));
  const named = await lockstep(['check', '--faults=crash=1', 'rate']);
  expect(named.stderr).not.toContain('called');
});

it('takes properties, bounds and parameters of a sweep by their old names', async () => {
  const { stdout, stderr } = await lockstep([...SEARCH, '--properties', 'validity,cleanup', '--exceed', 'step']);
  const today = await lockstep([...SEARCH, '--properties', 'quorum-backed,cleanup', '--exceed', 'clock-step']);
  expect([stderr, today.stderr]).toEqual([noteOf('validity', 'quorum-backed') + noteOf('step', 'clock-step'), '']);
  expect(JSON.parse(stdout)).toEqual({ ...JSON.parse(today.stdout), elapsedMs: expect.anything() });
  const map = await lockstep(['sweep', 'guard=0,1ms', 'pause=0,1ms', '--json']);
  expect(map.stderr).toContain(noteOf('pause', 'write-delay'));
  expect(map.code).toBe(0);
});

it('takes a verb by its old name, with its flags', async () => {
  const { stderr, code } = await lockstep(['guests', '--libraries', 'nobody']);
  expect(stderr).toContain(noteOf('guests', 'libraries') + noteOf('--libraries', '--only'));
  expect(stderr).toContain('--only: "nobody" is not');
  expect(code).toBe(64);
});

it('takes a chaos run for what it was called as a benchmark', async () => {
  const { stderr, code } = await lockstep(['bench', '--torture', '5']);
  expect(stderr).toContain(`${noteOf('--torture', '--duration')}lockstep: --duration: duration "5" has no unit`);
  expect(code).toBe(64);
});

it('leaves the flags of other verbs alone', async () => {
  const { stderr } = await lockstep(['explore', '--drift', '9']);
  expect(stderr).toContain('--drift');
  expect(stderr).not.toContain('called');
  expect(nameNow('advise', 'library')).toBe('library');
});
