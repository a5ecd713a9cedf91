import { definitions, scheduleGrammar } from '../scenarios/grammar.js';
import * as z from '../scenarios/zod.js';
import { Kind } from '../sim/trace.js';

const event: z.ZodType = z
  .strictObject({
    seq: z.int().min(0).describe('place in the trace'),
    kind: z.enum(Object.keys(Kind)),
    atUs: z.int().min(0).describe('true time, µs'),
    localUs: z.int().describe('the clock of the process, µs'),
    process: z.string().describe('a client (c1, …) or a node (n0, …)'),
    cause: z.int().min(-1).describe('seq of the event that led to this one, or -1'),
    detail: z.record(z.string(), z.union([z.string(), z.number(), z.array(z.string())])),
  })
  .register(definitions, { id: 'TraceEvent' });

/** What `replay --format json` prints. */
const traceGrammar: z.ZodType = z
  .strictObject({
    schema: z.literal('lockstep.trace/1'),
    id: z.string(),
    verdict: z.enum(['violated', 'unavailable', 'safe']),
    hash: z.string().regex(/^[0-9a-f]{16}$/),
    schedule: scheduleGrammar,
    trace: z.array(event),
  })
  .register(definitions, { id: 'Trace' });

/** The JSON Schema (draft 2020-12) of a trace, published as `report/trace.schema.json`. */
export function traceJsonSchema(): z.core.JSONSchema.JSONSchema {
  return z.toJSONSchema(traceGrammar, { metadata: definitions, io: 'input' });
}
