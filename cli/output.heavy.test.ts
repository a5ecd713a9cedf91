import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { layOut } from '../scenarios/json-layout.js';
import { outputJsonSchema } from './output-grammar.js';
import { emptyFolder, lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

test('what --json prints has a published schema that is up to date (vitest -u writes it)', async () => {
  await expect(layOut(outputJsonSchema())).toMatchFileSnapshot('./output.schema.json');
});

// The longer ones where they are tested: mutants, replay --all, and check --demo.
test.each([
  [['list']],
  [['list', '--profiles']],
  [['explore', '--ttl', '1']],
  [['explore', '--ttl', '1', '--crash', '1', '--restart-delay', '0']],
  [['campaign', '--runs', '100', '--workers', '1']],
  [['campaign', '--runs', '40', '--workers', '1', '--faults', 'crash=2', '--restart-delay', '0']],
  [['doctor']],
  [['playground', '--at', 'S03']],
  [['replay', 'S03']],
  [['replay', 'S03', '--explain']],
  [['replay', 'S12']],
  [['replay', 'S29g']],
  [['replay', 'S33', '--with', 'nodes=4']],
  [['replay', 'S03', '--diff', 'S04']],
  [['replay', 'S03', '--diff', 'S03']],
  [['replay', 'S03', '--diff', '--with', 'persistence=always']],
  [['sweep', 'ttl=1s,5s', 'drift=0..2%/3']],
  [['sweep', 'nodes=3,5', 'down=0..1']],
  [['sweep', 'drift=0,1%', 'restart-delay=0,10s']],
  [['check', '--runs', '20', '--workers', '1']],
])('%s --json prints what the schema says', async (argv) => {
  const { stdout } = await lockstep([...argv, '--json'], { cwd: emptyFolder() });
  expectToFit(JSON.parse(stdout));
});

test('verify --json prints what the schema says', async () => {
  const cwd = emptyFolder();
  const holds = ['x', 'y'].flatMap((lock, i) => [
    { type: 'acquire', lock, client: 'c1', resources: ['a'], ttlMs: 10, atUs: 5_000 * i },
    { type: 'acquired', lock, atUs: 5_000 * i + 100, validUs: 9_000 },
  ]);
  writeFileSync(join(cwd, 'violated.jsonl'), holds.map((event) => `${JSON.stringify(event)}\n`).join(''));
  writeFileSync(join(cwd, 'empty.jsonl'), '');
  for (const file of ['violated.jsonl', 'empty.jsonl']) {
    const { stdout } = await lockstep(['verify', file, '--json'], { cwd });
    expectToFit(JSON.parse(stdout));
  }
});
