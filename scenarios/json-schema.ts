import { definitions } from './grammar.js';
import { scenarioGrammar } from './scenario-grammar.js';
import * as z from './zod.js';

/**
 * The JSON Schema (draft 2020-12) of a scenario's file; that of a schedule is its `$defs/Schedule`. Published as
 * `scenarios/scenario.schema.json`. It knows the form; names that must exist are for the parser.
 */
export function scenarioJsonSchema(): z.core.JSONSchema.JSONSchema {
  return z.toJSONSchema(scenarioGrammar, { metadata: definitions, io: 'input' });
}
