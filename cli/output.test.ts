import { expect, test } from 'vitest';
import { z } from 'zod';
import { layOut } from '../scenarios/json-layout.js';
import { outputGrammar, outputJsonSchema } from './output-grammar.js';
import { lockstep } from './testing/in-process.js';

test('what --json prints has a published schema that is up to date (vitest -u writes it)', async () => {
  await expect(layOut(outputJsonSchema())).toMatchFileSnapshot('./output.schema.json');
});

test.each([
  [['list']],
  [['doctor']],
  [['replay', 'S03']],
  [['replay', 'S03', '--explain']],
  [['replay', 'S12']],
  [['replay', 'S29g']],
  [['replay', 'S33', '--with', 'nodes=4']],
  [['replay', 'S03', '--diff', 'S04']],
  [['replay', 'S03', '--diff', 'S03']],
  [['replay', 'S03', '--diff', '--with', 'persistence=always']],
  [['replay', '--all']],
  [['sweep', 'ttl=1s,5s', 'drift=0..2%/3']],
  [['sweep', 'nodes=3,5', 'down=0..1']],
  [['sweep', 'drift=0,1%', 'restart-delay=0,10s']],
  [['check', '--runs', '20', '--workers', '1']],
  [['check', '--demo', '--workers', '1']],
])('%s --json prints what the schema says', async (argv) => {
  const { stdout } = await lockstep([...argv, '--json']);
  const value = JSON.parse(stdout);
  for (const schema of [outputGrammar, z.fromJSONSchema(outputJsonSchema())]) {
    expect(schema.safeParse(value).error?.issues ?? []).toEqual([]);
    expect(schema.safeParse({ ...value, more: 1 }).success).toBe(false);
    expect(schema.safeParse({ ...value, schema: 'lockstep.other/1' }).success).toBe(false);
  }
});
