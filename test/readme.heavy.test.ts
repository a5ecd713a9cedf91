import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { emptyFolder, lockstep } from '../cli/testing/in-process.js';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');

test('the counterexample in the README is what the demonstration prints', async () => {
  const { stdout } = await lockstep(['check', '--demo'], { cwd: emptyFolder(), command: 'npm run -s lockstep --' });
  const printed = stdout.slice(stdout.indexOf('✗'), stdout.indexOf('\nnext')).trimEnd();
  expect(printed.split('\n').length).toBeGreaterThan(10);
  expect(readme).toContain(printed);
});

test('every quick command of the README that needs no Redis ends as it says', async () => {
  const commands = [...readme.matchAll(/^npm run -s lockstep -- (.*?)\s+#/gm)].map((match) => match[1] ?? '');
  expect(commands.length).toBeGreaterThan(3);
  const expected: Record<string, number> = {
    'check --faults crash=1 --restart-delay 0': 1,
    'check --exceed restart-delay': 1,
  };
  // Maps and explorations are made in doc-searches.slow.test.ts; others need servers.
  for (const command of commands.filter((it) => !/^(bench|chaos|mutants|sweep|explore)|--real/.test(it))) {
    const argv = command.split(' ');
    const runs = command in expected ? '500' : '100';
    const quick = argv[0] === 'check' ? [...argv, '--runs', runs] : argv;
    const { code, stderr } = await lockstep(quick, { cwd: emptyFolder() });
    expect({ command, code, stderr }).toEqual({ command, code: expected[command] ?? 0, stderr: '' });
  }
});
