import * as z from '../scenarios/zod.js';

/** What `doctor` prints with `--json`. */
export const doctor: z.ZodType = z.strictObject({
  schema: z.literal('lockstep.doctor/1'),
  ok: z.boolean(),
  findings: z.array(
    z.strictObject({
      name: z.string(),
      found: z.string().nullable(),
      costs: z.string(),
      required: z.boolean(),
    }),
  ),
});
