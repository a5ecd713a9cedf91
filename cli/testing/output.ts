import { expect } from 'vitest';
import { z } from 'zod';
import { outputGrammar, outputJsonSchema } from '../output-grammar.js';

const grammars = [outputGrammar, z.fromJSONSchema(outputJsonSchema())];

/** What `--json` printed is what the published schema says, and nothing more. */
export function expectToFit(value: object): void {
  for (const grammar of grammars) {
    expect(grammar.safeParse(value).error?.issues ?? []).toEqual([]);
    expect(grammar.safeParse({ ...value, more: 1 }).success).toBe(false);
    expect(grammar.safeParse({ ...value, schema: 'lockstep.other/1' }).success).toBe(false);
  }
}
