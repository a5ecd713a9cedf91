import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Exit } from '../cli/exit-codes.js';
import { lockstep } from '../cli/testing/in-process.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDER = new URL('../docs/findings/', import.meta.url);
const COMMAND = 'npm run -s lockstep --';
/** A command, and what it prints. */
const SHOWN = /^```sh\nnpm run -s lockstep -- (.*)\n```\n\n```text\n([\s\S]*?)```$/gm;

const files = readdirSync(FOLDER);
const read = (name: string): string => readFileSync(new URL(name, FOLDER), 'utf8');
const pages = files
  .filter((name) => name.endsWith('.md') && name !== 'README.md')
  .map((name) => {
    const text = read(name);
    const shown = [...text.matchAll(SHOWN)].map(([, command = '', output = '']) => ({ command, output }));
    return { name, text, shown };
  });

function blockOf(command: string, output: string): string {
  return `\`\`\`sh\nnpm run -s lockstep -- ${command}\n\`\`\`\n\n\`\`\`text\n${output}\`\`\``;
}

function codeOf(output: string): number {
  return output.startsWith('✗') ? Exit.violated : Exit.ok;
}

/** Without the second client, who makes the harm plain, these locks are still held for longer than their keys. */
const HELD_TOO_LONG = [
  'redis-semaphore-late-refresh.md',
  'redis-semaphore-lost-too-late.md',
  'redlock5-using-late-abort.md',
];

describe.each(pages)('docs/findings/$name', ({ name, text, shown }) => {
  it('shows a defect by commands, with nothing in its schedule that could be left out', () => {
    expect(shown.length).toBeGreaterThan(0);
    expect(text.match(/```sh/g)).toHaveLength(shown.length);
    const defects = shown.filter(({ output }) => output.startsWith('✗'));
    expect(defects.length).toBeGreaterThan(0);
    for (const { output } of defects) {
      if (!HELD_TOO_LONG.includes(name))
        expect(output.replaceAll(/\s+/g, ' ')).toContain('without any one of them: passes');
      expect(output).toContain('all kept, so this is a bug of the lock');
    }
  });

  it('says what its commands print (vitest -u writes it)', async () => {
    let page = text;
    for (const { command, output } of shown) {
      const { code, stdout, stderr } = await lockstep(command.split(' '), { cwd: ROOT, command: COMMAND });
      expect({ command, code, stderr }).toEqual({ command, code: codeOf(output), stderr: '' });
      page = page.replace(blockOf(command, output), () => blockOf(command, stdout));
    }
    await expect(page).toMatchFileSnapshot(fileURLToPath(new URL(name, FOLDER)));
  });
});

it('lists every page, and every schedule is on a page', () => {
  const listed = [...read('README.md').matchAll(/\]\(([\w.-]+\.md)\)/g)].map(([, name]) => name);
  expect(listed.sort()).toEqual(pages.map(({ name }) => name).sort());
  const played = new Set(pages.flatMap(({ shown }) => shown.map(({ command }) => command.split(' ')[2])));
  const schedules = files.filter((name) => name.endsWith('.json')).map((name) => `docs/findings/${name}`);
  expect([...played].sort()).toEqual(schedules.sort());
});
