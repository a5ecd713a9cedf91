import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { emptyFolder, lockstep, type Ran } from '../cli/testing/in-process.js';
import { wholeSearches } from './commands.js';

const [first = '', ...others] = wholeSearches();

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

it.each(others)('%s', async (command) => {
  await searched(command);
});
