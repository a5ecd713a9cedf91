import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { canRun } from '../real/testing/can-run.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

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
  expect(await offered('lockstep', 'che')).toEqual(['check']);
  expect(await offered('lockstep', 'list', '--')).toEqual(expect.arrayContaining(['--json', '--help']));
  expect(await offered('lockstep', 'replay', 'S0')).toContain('S03');
  expect(await offered('lockstep', 'list', 'S0')).toEqual([]);
});

test('bash leaves the value of a flag to file names', async () => {
  expect(await offered('lockstep', 'check', '--seed', 's')).toEqual([]);
});

function canRunIn(shell: 'zsh' | 'fish'): boolean {
  const isHere = spawnSync(shell, ['--version']).error === undefined;
  return canRun(`completion in ${shell}`, shell, isHere ? undefined : `install it (Debian: apt-get install ${shell})`);
}

describe.skipIf(!canRunIn('fish'))('fish', () => {
  async function inFish(line: string): Promise<string[]> {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, 'lockstep.fish'), await script('fish'));
    const command = `source lockstep.fish; complete -C '${line}'`;
    const env = { ...process.env, HOME: cwd };
    const out = execFileSync('fish', ['--no-config', '-c', command], { cwd, env, encoding: 'utf8' });
    return out.split('\n').map((it) => it.split('\t')[0] ?? '');
  }

  test('completes verbs, flags of the verb, and scenarios', async () => {
    expect(await inFish('lockstep che')).toEqual(['check', '']);
    expect(await inFish('lockstep ')).not.toContain('lockstep.fish');
    expect(await inFish('lockstep list --')).toEqual(expect.arrayContaining(['--json', '--profiles']));
    expect(await inFish('lockstep replay S0')).toContain('S03');
    expect(await inFish('lockstep list S0')).not.toContain('S03');
  });
});

/** What zsh would offer goes to the terminal instead, each in brackets. */
const ZSH_SHOWS = `PROMPT='> '
autoload -Uz compinit
compadd () {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -rl -- "<"\${^hits}">"
}
bindkey '^I' complete-word
`;
/** Types a line and a tab into a shell that has a terminal, once its editor listens. */
const ZSH_TYPES = `zmodload zsh/zpty
zpty z "TERM=xterm zsh -f -i"
zpty -w z "source ./init.zsh; echo RE''ADY"
zpty -r z out '*READY*2004h'
zpty -w -n z "$1"$'\t'
zpty -w -n z $'\x15'"echo DO''NE"$'\n'
zpty -r z out '*DONE*'
print -r -- "$out"
`;

describe.skipIf(!canRunIn('zsh'))('zsh', () => {
  async function inZsh(line: string, setUp: string): Promise<string[]> {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, '_lockstep'), await script('zsh'));
    writeFileSync(join(cwd, 'init.zsh'), `${ZSH_SHOWS}${setUp}`);
    writeFileSync(join(cwd, 'type.zsh'), ZSH_TYPES);
    const out = execFileSync('zsh', ['-f', 'type.zsh', line], { cwd, encoding: 'utf8', timeout: 20_000 });
    return [...out.matchAll(/<([^<>]*)>/g)].map(([, it = '']) => it);
  }

  test.each([
    ['sourced', 'compinit -u -D\nsource ./_lockstep\n'],
    ['as a file of fpath', 'fpath=($PWD $fpath)\ncompinit -u -D\n'],
  ])('%s, completes verbs, flags of the verb, and scenarios', async (_, setUp) => {
    expect(await inZsh('lockstep che', setUp)).toEqual(['check']);
    expect(await inZsh('lockstep list --', setUp)).toEqual(expect.arrayContaining(['--json', '--profiles']));
    expect(await inZsh('lockstep replay S0', setUp)).toContain('S03');
    expect(await inZsh('lockstep list S0', setUp)).not.toContain('S03');
  });
});

test('another shell is told in one sentence', async () => {
  expect((await lockstep(['completion', 'tcsh'])).stderr).toBe(
    'lockstep: completion: "tcsh" is not one of its values; they are bash, zsh, fish\n',
  );
});
