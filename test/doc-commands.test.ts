import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { emptyFolder, lockstep } from '../cli/testing/in-process.js';
import { commandsOf } from './commands.js';

describe('docs/frontier.md', () => {
  const commands = commandsOf('docs/frontier.md');

  it.each(commands.map((argv) => [argv.join(' '), argv] as const))('%s', async (_, argv) => {
    const { code, stderr } = await lockstep(argv, { cwd: emptyFolder() });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('ends as the first command does', async () => {
    const { stdout } = await lockstep(commands[0] ?? []);
    const text = readFileSync(new URL('../docs/frontier.md', import.meta.url), 'utf8');
    const said = stdout.slice(stdout.indexOf('With a TTL'), stdout.indexOf('\n\ntightest'));
    expect(said.split(/\s+/).length).toBeGreaterThan(20);
    expect(text.replaceAll(/\s+/g, ' ')).toContain(said.replaceAll(/\s+/g, ' '));
  });
});
