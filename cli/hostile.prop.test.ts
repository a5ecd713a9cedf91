import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { expectTold, filesBelow, HOSTILE, scenarioOf } from './testing/hostile.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

it.each(HOSTILE.map((name) => [JSON.stringify(name).slice(0, 40), name]))(
  'the pages of a scenario named %s are written where they belong',
  async (_, name) => {
    const around = emptyFolder();
    const cwd = join(around, 'work');
    mkdirSync(cwd);
    writeFileSync(join(cwd, 'z.json'), scenarioOf(name));
    const page = await lockstep(['replay', 'z.json', '--format', 'html'], { cwd });
    expectTold(page);
    expect(page.stderr).toBe('');
    for (const flags of [['--open'], ['--with', 'persistence=always', '--diff', '--open']]) {
      const env = { LOCKSTEP_OPEN: 'no' };
      const { code, stdout, stderr } = await lockstep(['replay', 'z.json', ...flags], { cwd, env });
      expect({ code, stderr }).toEqual({ code: 3, stderr: '' });
      expect(stdout).toMatch(/^\.lockstep\/reports\/[^/\n]+\.html\n$/);
      expect(readFileSync(join(cwd, stdout.trim()), 'utf8')).toContain('<html');
    }
    expect(filesBelow(around).filter((it) => !/^work\/(?:z\.json$|\.lockstep\/reports\/[^/]+$)/.test(it))).toEqual([]);
  },
);
