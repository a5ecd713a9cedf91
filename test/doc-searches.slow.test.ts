import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { emptyFolder, lockstep, type Ran } from '../cli/testing/in-process.js';
import { commandsOf } from './commands.js';

/** Searches that end by themselves. What ends after a number of runs is tried with fewer of them, beside its document. */
const WHOLE: readonly string[] = ['sweep', 'explore'];

const [first = '', ...others] = ['docs/safety-map.md', 'docs/tour.md', 'README.md']
  .flatMap(commandsOf)
  .filter(([verb = '']) => WHOLE.includes(verb))
  .map((argv) => argv.join(' '));

async function searched(command: string): Promise<Ran> {
  const ran = await lockstep(command.split(' '), { cwd: emptyFolder() });
  expect({ code: ran.code, stderr: ran.stderr }).toEqual({ code: 0, stderr: '' });
  return ran;
}

it(`${first} ends as docs/safety-map.md says`, async () => {
  const { stdout } = await searched(first);
  const text = readFileSync(new URL('../docs/safety-map.md', import.meta.url), 'utf8');
  const said = stdout.slice(stdout.indexOf('With a TTL'), stdout.indexOf('\n\ntightest'));
  expect(said.split(/\s+/).length).toBeGreaterThan(20);
  expect(text.replaceAll(/\s+/g, ' ')).toContain(said.replaceAll(/\s+/g, ' '));
});

it.each([...new Set(others)].filter((it) => it !== first))('%s', async (command) => {
  await searched(command);
});
