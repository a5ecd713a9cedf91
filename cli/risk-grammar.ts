import { CAUSE_NAMES } from '../advise/risk/model.js';
import * as z from '../scenarios/zod.js';
import { lines } from './advise-grammar.js';

const count = z.int().min(0);

const interval = z.strictObject({ value: z.number(), low: z.number(), high: z.number() });
const riskFigures = {
  perYear: interval.describe('holds a year in which something is violated, with a 95 % interval'),
  overlap: interval.describe('those that another client believed to have, too'),
  late: interval.describe('those with a write that arrived after the lock was over'),
  disordered: interval.describe('those with fencing tokens out of order'),
};
const causeName = z.enum(CAUSE_NAMES as [string, ...string[]]);
/** What `risk` prints with `--json`. */
export const risk: z.ZodType = z.strictObject({
  schema: z.literal('lockstep.risk/1'),
  estimates: z.array(
    z.strictObject({
      system: z.string(),
      rates: z.enum(['as described', 'low', 'high']).describe('which end of published ranges is taken'),
      assumptions: z.array(z.strictObject({ about: z.string(), says: z.string() })),
      seed: z.string(),
      ...riskFigures,
      causes: z.array(
        z.strictObject({
          causes: z.array(causeName).describe('all of them are needed; none where no event is'),
          perYear: interval,
          schedule: z.string().nullable().describe('path of its file; null where it could not be written'),
          replay: z
            .string()
            .nullable()
            .describe('a command that shows it again; null where its file could not be written'),
        }),
      ),
      method: z.strictObject({
        runs: count,
        pilotRuns: count.describe('they only find out how to share the runs'),
        hits: count,
        measured: count.describe('strata whose share of violations was measured'),
        inside: count.describe('strata that keep all that the lock assumes, and count as safe'),
        insideRuns: count,
        restPerYear: z.number().describe('holds a year that were not looked at; in the upper end of perYear'),
        halves: z.number().describe('how far two halves of the runs differ, in standard deviations'),
      }),
      changes: z.array(
        z.strictObject({
          id: z.string(),
          title: z.string(),
          lines,
          ...riskFigures,
        }),
      ),
    }),
  ),
  interrupted: z.boolean(),
});

/** What `risk --typical` prints with `--json`. */
export const typicalRates: z.ZodType = z.strictObject({
  schema: z.literal('lockstep.typical-rates/1'),
  rates: z.array(
    z.strictObject({
      cause: causeName,
      perYear: z
        .array(z.number())
        .nullable()
        .describe('least and most of one node or client; null where it is not published'),
      size: z.string(),
      source: z.string(),
    }),
  ),
});
