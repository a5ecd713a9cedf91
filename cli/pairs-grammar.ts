import * as z from '../scenarios/zod.js';

const count = z.int().min(0);

/** What `libraries --pair` and `--pairs` print with `--json`. */
export const libraryPairs: z.ZodType = z.strictObject({
  schema: z.literal('lockstep.library-pairs/1'),
  seed: z.string(),
  runs: count.describe('schedules of each class of faults'),
  libraries: z.array(z.strictObject({ id: z.string(), version: z.string(), commands: z.array(z.string()) })),
  schedules: z.record(z.string(), z.unknown()).describe('by name, in the form lockstep.schedule/2'),
  pairs: z.array(
    z.strictObject({
      old: z.string().describe('whose clients hold the lock'),
      joining: z.string(),
      nodes: count,
      sameKey: z.boolean().describe('one of the two was told the key of the other for a name'),
      verdict: z.enum(['safe', 'unsafe']),
      fault: z.string().nullable(),
      schedule: z.string().nullable(),
      events: count.describe('locks asked for, extended and released, faults, messages lost or late, wrong clocks'),
      left: z.array(z.string()).describe('classes of faults that one of the two alone does not withstand'),
      runs: count,
    }),
  ),
});
