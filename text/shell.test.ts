import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { shellCommand, shellWord } from './shell.js';

const WORDS = [
  '',
  'plain-1.0/a_b:c@d%e+f,g=h',
  'a b',
  "it's",
  '"$(id)"; `id` & | > <',
  '~',
  '*',
  '#',
  '!!',
  'a\\b',
  'a\nb',
  "\u001b[31m'\\'\u0007",
  '\u202eabc\u2066',
  'naïve 日本語 🔒',
  '$HOME',
  '-x',
  '{a,b}',
];

it('needs no quotes for most words', () => {
  expect(shellCommand('npm run -s lockstep --', 'replay', '.lockstep/failures/1-34.json', '--with', 'ttl=5s')).toBe(
    'npm run -s lockstep -- replay .lockstep/failures/1-34.json --with ttl=5s',
  );
});

describe.skipIf(spawnSync('bash', ['-c', 'true']).status !== 0)('a shell', () => {
  it('reads back what was quoted, in characters that can be seen', () => {
    const command = shellCommand("printf '%s\\0'", ...WORDS);
    expect(command).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    const { stdout } = spawnSync('bash', ['-c', command], { encoding: 'utf8' });
    expect(stdout.split('\0').slice(0, -1)).toEqual(WORDS);
  });

  it('reads each alone', () => {
    const command = WORDS.map((word) => `printf '%s\\0' ${shellWord(word)}`).join('\n');
    const { stdout } = spawnSync('bash', ['-c', command], { encoding: 'utf8' });
    expect(stdout.split('\0').slice(0, -1)).toEqual(WORDS);
  });
});
