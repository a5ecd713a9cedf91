import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

const SEARCH = ['check', '--runs', '1', '--json', '--no-regressions'];
const NOTE = 'lockstep: --drift is called --drift-allowance now; the old name goes with the next version\n';

it.each([
  ['as two words', ['--drift', '3%']],
  ['as one', ['--drift=3%']],
])('takes a flag by its old name %s, and says what it is called now', async (_, old) => {
  const { stdout, stderr } = await lockstep([...SEARCH, ...old]);
  const today = await lockstep([...SEARCH, '--drift-allowance', '3%']);
  expect([stderr, today.stderr]).toEqual([NOTE, '']);
  expect(JSON.parse(stdout).hash).toBe(JSON.parse(today.stdout).hash);
  expect(JSON.parse(stdout).hash).not.toBe(JSON.parse((await lockstep(SEARCH)).stdout).hash);
});

it('takes it from a configuration file too', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'lockstep.config.json'), '{ "check": { "drift": "3%" } }');
  const { stdout } = await lockstep(SEARCH, { cwd });
  const today = await lockstep([...SEARCH, '--drift-allowance', '3%']);
  expect(JSON.parse(stdout).hash).toBe(JSON.parse(today.stdout).hash);
});

it('leaves the flags of other verbs alone', async () => {
  const { stderr } = await lockstep(['explore', '--drift', '9']);
  expect(stderr).toContain('--drift');
  expect(stderr).not.toContain('called');
});
