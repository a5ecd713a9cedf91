import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { lockstep } from '../cli/testing/in-process.js';
import { commandsOf } from './commands.js';

/** `replay S24 --with … # violated: …`: what a line of the tour says the outcome is. */
const TOLD = /^npm run -s lockstep -- (replay .*?)\s+# (\w+):/gm;

describe('docs/tour.md', () => {
  const text = readFileSync(new URL('../docs/tour.md', import.meta.url), 'utf8');
  const told = [...text.matchAll(TOLD)].map(([, command = '', verdict = '']) => ({ command, verdict }));
  const sweeps = commandsOf('docs/tour.md').filter(([verb]) => verb === 'sweep');

  it('has a verdict behind every schedule', () => {
    expect(told.length).toBeGreaterThan(20);
    expect(told.length + sweeps.length).toBe(commandsOf('docs/tour.md').length);
  });

  it.each(told)('$command is $verdict', async ({ command, verdict }) => {
    const { code, stdout } = await lockstep([...command.split(/\s+/), '--json']);
    // As the scenario has it declared, too.
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({ code: 0, verdict, reproduced: true });
  });

  it('shows pictures that are there, of scenarios that it speaks of', () => {
    const pictures = [...text.matchAll(/\]\((pictures\/(\w+)\.svg)\)/g)];
    expect(pictures.length).toBeGreaterThan(2);
    for (const [, path = '', id = ''] of pictures) {
      expect(readFileSync(new URL(`../docs/${path}`, import.meta.url), 'utf8')).toContain('<svg');
      expect(told.some(({ command }) => command.includes(`replay ${id}`))).toBe(true);
    }
  });
});
