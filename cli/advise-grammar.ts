import { UNKNOWNS } from '../advise/unknowns.js';
import { PROPERTIES } from '../properties/property-info.js';
import * as z from '../scenarios/zod.js';

const us = z.int().describe('µs of true time');
const count = z.int().min(0);
const property = z.enum(Object.keys(PROPERTIES));
/** A file that comes with a result. */
const file = {
  schedule: z.string().nullable().describe('path of its file; null where it could not be written'),
  replay: z
    .string()
    .describe('a command that shows it again, as it is to be typed')
    .nullable()
    .describe('null where its file could not be written'),
};

/** Lines for files. */
export const lines: z.ZodType = z.array(
  z.strictObject({
    file: z.string(),
    lines: z.array(z.string()),
    first: z.string().exactOptional().describe('a command that is to be run before'),
    command: z.string().exactOptional().describe('a command that is to be run when they are in place'),
  }),
);
const hazard = z.strictObject({
  id: z.enum(['clocks', 'memory', 'writes', 'availability', 'client']),
  says: z.string(),
  property: property.nullable(),
  ...file,
});
const advised = { id: z.string(), title: z.string(), lines };
const witness = { value: z.number(), ...file };
/** What `advise` prints with `--json`. */
export const advise: z.ZodType = z.strictObject({
  schema: z.literal('lockstep.advise/1'),
  verdict: z.enum(['safe', 'safe-if', 'not']).describe('as it is; with the changes; whatever is set'),
  subject: z.string(),
  hazards: z.array(hazard).describe('what fails as it is'),
  remaining: z.array(hazard).describe('what fails with all changes in place'),
  changes: z.array(z.strictObject(advised)).describe('the least that suffice, in their order'),
  alternatives: z.array(
    z.strictObject({
      insteadOf: z.string(),
      ...advised,
      without: z.array(z.string()).describe('files of the other lines that are not to be then'),
    }),
  ),
  lines: lines.describe('of all changes, by file'),
  clocks: lines.describe('for clocks as the advice takes them; none where a change has such lines'),
  figures: z
    .array(
      z.strictObject({
        of: z.enum(UNKNOWNS),
        unit: z.enum(['µs', 'votes']),
        least: z.number().describe('the least that is safe'),
        advised: z.number().nullable().describe('with all changes in place; null where it is not set'),
        computed: z.number().describe('by its closed formula'),
        agrees: z.boolean(),
        breaks: property,
        safe: z.strictObject(witness),
        violated: z.strictObject(witness).nullable().describe('one step below; null where nothing below is unsafe'),
      }),
    )
    .describe('of the system with all changes in place'),
  tradeoffs: z.array(
    z.strictObject({ driftPpm: z.number(), allowanceUs: us, validityUs: us, restartDelayUs: us.nullable() }),
  ),
  voteTradeoffs: z.array(z.strictObject({ votes: count, mayForget: z.int(), mayBeDown: count })),
  assumptions: z.array(
    z.strictObject({
      field: z.string(),
      says: z.string(),
      default: z.boolean().describe('nobody said it, and what is otherwise may be worse'),
    }),
  ),
  condition: z.string().nullable().describe('what the verdict depends on and no line makes sure of'),
  notCovered: z.array(z.string()),
  search: z.strictObject({
    verdict: z.enum(['passed', 'violated', 'inconclusive']),
    runs: count,
    events: count,
    seed: z.string(),
    hash: z.string(),
  }),
  known: z
    .array(z.strictObject({ path: z.string(), committed: z.boolean(), stillFails: z.boolean() }))
    .describe('failures that were replayed with the settings of the system'),
});
