import { execFileSync, spawnSync } from 'node:child_process';
import { expect, it, test } from 'vitest';
import { lockstep } from './testing/in-process.js';

async function script(shell: string): Promise<string> {
  const { code, stdout } = await lockstep(['completion', shell]);
  expect(code).toBe(0);
  return stdout;
}

/** What bash offers for a line, the last word of which is being typed. */
async function offered(...words: string[]): Promise<string[]> {
  const text = `${await script('bash')}
COMP_WORDS=(${words.map((it) => `'${it}'`).join(' ')})
COMP_CWORD=${words.length - 1}
_lockstep
printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-c', text], { encoding: 'utf8' })
    .split('\n')
    .filter((it) => it !== '');
}

test('bash completes verbs, flags of the verb, and scenarios', async () => {
  expect(await offered('lockstep', 'ch')).toEqual(['check']);
  expect(await offered('lockstep', 'list', '--')).toEqual(expect.arrayContaining(['--json', '--help']));
  expect(await offered('lockstep', 'replay', 'S0')).toContain('S03');
  expect(await offered('lockstep', 'list', 'S0')).toEqual([]);
});

test('bash leaves the value of a flag to file names', async () => {
  expect(await offered('lockstep', 'check', '--seed', 's')).toEqual([]);
});

it.each(['zsh', 'fish'])('%s takes its script without complaint, where it is installed', async (shell) => {
  const text = await script(shell);
  for (const verb of ['check', 'replay', 'explore', 'sweep', 'doctor']) expect(text).toContain(verb);
  const ran = spawnSync(shell, ['-n'], { input: text, encoding: 'utf8' });
  if (ran.error === undefined) expect(ran.stderr).toBe('');
});

test('another shell is told in one sentence', async () => {
  expect((await lockstep(['completion', 'tcsh'])).stderr).toBe(
    'lockstep: completion: "tcsh" is not one of its values; they are bash, zsh, fish\n',
  );
});
