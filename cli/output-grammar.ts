import { PROMISES } from '../audit/index.js';
import { PROPERTIES } from '../properties/property-info.js';
import * as z from '../scenarios/zod.js';
import { PARAMETERS } from '../search/safety-map/index.js';
import { advise } from './advise-grammar.js';
import { doctor } from './doctor-grammar.js';
import { libraryPairs } from './pairs-grammar.js';
import { risk, typicalRates } from './risk-grammar.js';

/*
 * What the verbs print with `--json`, for programs that read it.
 */

const definitions: z.core.$ZodRegistry<{ id: string }> = z.registry<{ id: string }>();

const us = z.int().describe('µs of true time');
const count = z.int().min(0);
const hash = z.string().regex(/^[0-9a-f]{16}$/);
const property = z.enum(Object.keys(PROPERTIES));
const kind = z.enum(['belief', 'state', 'effect', 'liveness', 'harness']);
const fixed = z.enum(['violated', 'unavailable', 'safe']).describe('of a fixed schedule');
const command = z.string().describe('a command that shows it again, as it is to be typed');

/** A file that comes with a result. */
const file = {
  schedule: z.string().nullable().describe('path of its file; null where it could not be written'),
  replay: command.nullable().describe('null where its file could not be written'),
};

const looked = z.enum(['safe', 'violated', 'unchecked']);
const verdicts = z
  .strictObject({
    belief: looked,
    state: looked,
    effect: looked,
    liveness: looked,
    unavailable: z.array(z.strictObject({ fromUs: us, toUs: us })),
  })
  .register(definitions, { id: 'Verdicts' });

const violation = z
  .strictObject({
    property,
    kind,
    atUs: us,
    untilUs: us.nullable(),
    resource: z.string(),
    detail: z.string(),
  })
  .register(definitions, { id: 'Violation' });

const explained = z.strictObject({ kind: z.string(), piece: z.string(), without: z.string() });

const replay = z.strictObject({
  schema: z.literal('lockstep.replay/1'),
  id: z.string(),
  verdict: z.enum(['violated', 'unavailable', 'safe', 'inconclusive']),
  violations: z.array(violation),
  verdicts,
  availability: z.array(z.strictObject({ fromUs: us, toUs: us, reason: z.string() })),
  assumptionsBroken: z.array(z.string()),
  unused: z.array(z.string()).describe('what of the schedule did not come about, as in fates[2]: …'),
  hash,
  events: count,
  reproduced: z
    .boolean()
    .nullable()
    .describe('whether what is expected came; null where nothing is, and where that is inconclusive'),
  difference: z.string().nullable(),
  explained: z.strictObject({ property, pieces: z.array(explained) }).optional(),
});

const compared = z.strictObject({ id: z.string(), name: z.string(), verdict: fixed, hash, events: count });
const diff = z.strictObject({
  schema: z.literal('lockstep.diff/1'),
  a: compared,
  b: compared,
  parting: z.string().describe('where the two runs part, in a sentence'),
  first: z
    .strictObject({ a: count.nullable(), b: count.nullable() })
    .nullable()
    .describe('the events at which they part, by their places in the traces; null where they do not'),
  differing: count,
});

const outcome = { expected: fixed, verdict: fixed, reproduced: z.boolean(), difference: z.string().nullable() };
const variant = z.strictObject({ kind: z.enum(['flip', 'neighbour']), title: z.string(), ...outcome });
const replayAll = z.strictObject({
  schema: z.literal('lockstep.replay-all/1'),
  scenarios: z.array(z.strictObject({ id: z.string(), title: z.string(), ...outcome, variants: z.array(variant) })),
  reproduced: count,
  total: count,
});

const list = z.strictObject({
  schema: z.literal('lockstep.list/1'),
  scenarios: z.array(
    z.strictObject({ id: z.string(), slug: z.string(), title: z.string(), expect: fixed, source: z.string() }),
  ),
});

const page = z.string().optional().describe('path of the page for a pass, where one was asked for');

const check = z.strictObject({
  schema: z.literal('lockstep.check/1'),
  verdict: z.enum(['passed', 'violated', 'inconclusive']),
  runs: count,
  events: count,
  seed: z.string(),
  strategy: z.string(),
  hash: hash.describe('of all runs, whatever the number of workers'),
  exercised: z.record(z.string(), count),
  notHit: z.array(z.string()),
  notTried: z.array(z.string()).describe('what the search leaves out, in words'),
  notJudged: z.array(property).describe('properties about which nothing is said'),
  judgedInside: z.array(property).describe('properties that count only in schedules that keep the assumptions'),
  report: page,
  counterexample: z
    .strictObject({
      property,
      kind,
      schedule: file.schedule,
      events: count,
      report: z.string().nullable().describe('path of its page; null where it could not be written'),
      replay: file.replay,
      run: count,
      hash,
      foundEvents: count.describe('before it was made small'),
      atUs: us,
      untilUs: us.nullable(),
      resource: z.string(),
      detail: z.string(),
      preventedBy: z.array(z.string()),
      needed: z.array(explained),
    })
    .optional(),
  verdicts,
  assumptionsBroken: z.array(z.string()),
  reason: z.string().nullable(),
  strained: z.record(z.string(), z.strictObject({ runs: count, atBound: count })),
  near: count,
  shareBelow: z.number().nullable().describe('of the schedules that this search draws, at 95 %'),
  regressions: z.strictObject({
    total: count,
    unreproduced: z.array(z.strictObject({ path: z.string(), difference: z.string() })),
    settings: z.array(z.string()).describe("today's settings, as mitigations"),
    failures: z
      .array(z.strictObject({ path: z.string(), committed: z.boolean(), stillFails: z.boolean() }))
      .describe("those that fail as they were written down, and whether they do with today's settings"),
  }),
  steps: count,
  elapsedMs: count,
  workers: count,
  interrupted: z.boolean(),
  configuration: z.record(z.string(), z.unknown()).describe('what was searched, resolved from flags and defaults'),
});

const cell = z.enum(['safe', 'violated', 'unavailable']);
const side = z.strictObject({ at: z.number(), verdict: cell });
const column = z
  .strictObject({
    at: z.number().describe('value of the first parameter'),
    measured: z.array(cell).describe('by the values of the second parameter'),
    computed: z.array(cell).describe('by the theory'),
    boundaries: z.array(
      z.strictObject({
        below: side,
        above: side.describe('one grain above: nothing lies between'),
        computed: z.number().nullable().describe('where the theory has the same change; null if it has none'),
      }),
    ),
  })
  .register(definitions, { id: 'Column' });
const parameter = z.enum(Object.keys(PARAMETERS));
const axis = z.strictObject({
  name: parameter,
  values: z.array(z.number()).describe('µs for times, ppm for shares and rates, else counts'),
});
const sweep = z.strictObject({
  schema: z.literal('lockstep.sweep/1'),
  x: axis,
  y: axis,
  policy: z.string().describe('the client, by its profile'),
  persistence: z.enum(['none', 'rdb', 'everysec', 'always']),
  fixed: z.record(z.string(), z.number().nullable()).describe('what the other parameters are; null for none'),
  columns: z.array(column),
  answer: z.string().describe('in one sentence'),
  focus: column.describe('the one that the answer is about'),
  agreement: z.strictObject({ agree: count, cells: count }).describe('of the measurement with the theory'),
  counterexample: z.strictObject({ property, ...file }).optional(),
  deepestSafe: z.strictObject(file).optional(),
  interrupted: z.boolean(),
});

const playground = z.strictObject({
  schema: z.literal('lockstep.playground/1'),
  path: z.string().describe('the page'),
  bytes: z.int().min(0),
  fragment: z.string().describe('the state of the page, as its address has it; empty for how it begins'),
  address: z.string().describe('the page as a file: URL, with the fragment'),
});

const choices = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]));

const policies = z.strictObject({
  schema: z.literal('lockstep.policies/2'),
  policies: z.array(
    z.strictObject({
      id: z.string(),
      origin: z.record(z.string(), z.unknown()).nullable().describe('where it was read off; null for the reference'),
      policy: z.strictObject({
        profile: z.string(),
        settings: choices,
        deviations: z.array(z.string()).describe('names in the catalogue of deviations, `name` or `name:number`'),
        habits: choices,
      }),
    }),
  ),
});

const explore = z.strictObject({
  schema: z.literal('lockstep.explore/1'),
  verdict: z.enum(['safe', 'violated', 'inconclusive']),
  states: count,
  transitions: count,
  seconds: z.number(),
  exhausted: z.boolean(),
  depth: count,
  bytesPerState: count,
  trapped: count.optional().describe('states from which nobody can ever hold the lock again'),
  bounds: z.record(z.string(), z.unknown()),
  counterexample: z.strictObject({ property, actions: count, ...file }).optional(),
  report: page,
});

const mutants = z.strictObject({
  schema: z.literal('lockstep.mutants/1'),
  mutants: z.array(
    z.strictObject({
      id: z.string(),
      strategy: z.string(),
      heldOut: z.boolean().describe('never looked at when the search is tuned'),
      caughtBy: property.nullable().describe('null where it got away in half of the searches or more'),
      searches: count,
      caught: count,
      historiesMedian: z.number(),
      cpuMsMedian: z.number(),
      cpuMsFirst: z.number(),
      cpuMsAll: z.number(),
      shrunkEvents: count.nullable(),
    }),
  ),
  caught: count,
  total: count,
  seeds: count,
  runs: count,
  strategy: z.string(),
});

const found = { resource: z.string().nullable(), lines: z.array(count).describe('from 1'), detail: z.string() };
const verify = z.strictObject({
  schema: z.literal('lockstep.verify/1'),
  verdict: z.enum(['passed', 'violated', 'inconclusive']),
  operations: count,
  violations: z.array(z.strictObject({ property, ...found })),
  doubts: z.array(z.strictObject(found)),
});

const libraries = z.strictObject({
  schema: z.literal('lockstep.libraries/1'),
  seed: z.string(),
  runs: count,
  rows: z.array(
    z.strictObject({
      library: z.string(),
      version: z.string().nullable(),
      fault: z.string(),
      runs: count,
      violations: count.describe('schedules with one'),
      kinds: z.record(z.string(), count),
      inside: count.describe('of them, those inside what Redlock assumes'),
      outside: count,
      claims: count,
      uncaught: count,
      hash: z.string(),
      counterexamples: z.array(
        z.strictObject({
          kind: z.string(),
          run: count,
          minimal: z.boolean(),
          assumptionsBroken: z.array(z.string()),
          path: z.string().nullable(),
        }),
      ),
    }),
  ),
});

const sentence = z.string();
const audited = {
  file: z.string().describe('its path, from the working directory'),
  verdict: z.enum(['passed', 'violated', 'inconclusive']),
  understood: z.array(sentence).describe('how the lock is used, as far as it was understood'),
  promise: z.strictObject({
    kind: z.enum(Object.keys(PROMISES)),
    judged: sentence,
    notMade: sentence,
  }),
  findings: z.array(
    z.strictObject({
      id: z.string().describe('its one name, also in text, in SARIF and in baselines'),
      property: z.string(),
      sentence,
      fix: sentence.nullable(),
      decidedBy: z.string().nullable().describe('the line that sent the command that decided'),
      assumptionsBroken: z.array(z.string()),
      schedule: z.string().nullable(),
      report: z.string().nullable(),
      replay: command,
      accepted: z.boolean().optional().describe('whether it is in the baseline; left out without one'),
    }),
  ),
  notes: z.array(sentence),
  runs: count,
  acquired: count,
};
const known = { file: z.string(), property: z.string(), id: z.string() };
const noLongerFound = z
  .array(z.strictObject(known))
  .optional()
  .describe('what the baseline has, and should not have any more; left out without one');
const audit = z.strictObject({ schema: z.literal('lockstep.audit/1'), ...audited, noLongerFound, report: page });
const unaudited = z.array(z.strictObject({ file: z.string(), why: sentence }));
const audits = z.strictObject({
  schema: z.literal('lockstep.audits/1'),
  audits: z.array(z.strictObject(audited)),
  skipped: unaudited.describe('files without a lock'),
  notAudited: unaudited.describe('files of which nothing can be said'),
  noLongerFound,
});

const campaign = z.strictObject({
  schema: z.literal('lockstep.campaign-result/1'),
  verdict: z.enum(['passed', 'violated', 'inconclusive']),
  runs: count,
  events: count,
  hash,
  engine: hash.describe('of what searches: parts of different engines are not added up'),
  ranges: z.strictObject({ total: count, done: count, missing: z.array(z.unknown()) }),
  report: page,
  searches: z.array(
    z.strictObject({
      name: z.string(),
      weight: z.number(),
      runs: count,
      events: count,
      steps: count,
      hash,
      exercised: z.record(z.string(), count),
      strained: z.record(z.string(), z.strictObject({ runs: count, atBound: count })),
      near: count,
      violating: z.record(z.string(), count).describe('runs by the property that they violate'),
    }),
  ),
  failures: z.array(
    z.strictObject({ shape: z.string(), property: z.string(), search: count, run: count, events: count }),
  ),
});

/** What `--json` prints, told apart by `schema`. */
export const outputGrammar: z.ZodType = z.union([
  check,
  replay,
  diff,
  replayAll,
  list,
  policies,
  sweep,
  advise,
  explore,
  mutants,
  verify,
  libraries,
  libraryPairs,
  audit,
  audits,
  campaign,
  doctor,
  playground,
  risk,
  typicalRates,
]);

/** Its JSON Schema (draft 2020-12), published as `cli/output.schema.json`. */
export function outputJsonSchema(): z.core.JSONSchema.JSONSchema {
  return z.toJSONSchema(outputGrammar, { metadata: definitions, io: 'input' });
}
