import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Program } from './program.js';

/** What a file exports as `draw` in each of two processes. */
async function drawsOf(name: string, text: string): Promise<readonly [unknown, unknown]> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-program-')), name);
  writeFileSync(path, text);
  const program = await Program.load(path);
  expect(program.sources).toHaveLength(1);
  return [(await program.evaluate()).draw, (await program.evaluate()).draw];
}

it.each([
  ['lock.ts', "import { nanoid } from 'nanoid';\nexport const draw = nanoid;", /^[\w-]{21}$/],
  ['lock.ts', "import { v4 } from 'uuid';\nexport const draw = v4;", /^[\da-f]{8}-[\da-f]{4}-4/],
  ['lock.cjs', "const { v4 } = require('uuid');\nmodule.exports = { draw: v4 };", /^[\da-f]{8}-[\da-f]{4}-4/],
] as const)('loads once for each process what keeps random bytes (%s: %s)', async (name, text, token) => {
  const [one, two] = await drawsOf(name, text);
  expect(one).not.toBe(two);
  for (const draw of [one, two]) expect((draw as () => string)()).toMatch(token);
});

it('loads other packages once', async () => {
  const [one, two] = await drawsOf('lock.ts', "import dayjs from 'dayjs';\nexport const draw = dayjs;");
  expect(one).toBe(two);
});
