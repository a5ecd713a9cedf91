import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandFor } from './io.js';
import { emptyFolder } from './testing/in-process.js';

test('printed commands are those that work where they are printed', () => {
  const cwd = emptyFolder();
  expect(commandFor('/usr/local/bin/lockstep', cwd)).toBe('lockstep');
  expect(commandFor(join(cwd, 'node_modules', '.bin', 'lockstep'), cwd)).toBe('npx lockstep');
  const script = join(cwd, 'dist', 'cli', 'main.js');
  expect(commandFor(script, cwd)).toBe('node dist/cli/main.js');
  writeFileSync(join(cwd, 'package.json'), '{}');
  expect(commandFor(script, cwd)).toBe('npm run -s lockstep --');
});
