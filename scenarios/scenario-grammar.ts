import { exactly } from './exactly.js';
import { definitions, scheduleGrammar } from './grammar.js';
import { anything, formed, list, MICROS, maybe, oneOf, record, text, whole, wrongTag } from './grammar-parts.js';
import {
  type Change,
  type Expectation,
  type ExpectedViolation,
  PROPERTY_IDS,
  type PropertyId,
  type Scenario,
  type Variant,
} from './scenario.js';
import * as z from './zod.js';

const property: z.ZodType<PropertyId> = oneOf(...PROPERTY_IDS).register(definitions, { id: 'PropertyId' });

const violation: z.ZodType<ExpectedViolation> = exactly<ExpectedViolation>()(
  record('an expected violation', {
    property,
    atUs: maybe(whole(MICROS)),
    untilUs: maybe(whole(MICROS)),
    resource: maybe(text('the name of a resource')),
  }),
).register(definitions, { id: 'ExpectedViolation' });

const expectation: z.ZodType<Expectation> = exactly<Expectation>()(
  record('an expectation', {
    verdict: oneOf('violated', 'inconclusive', 'unavailable', 'passed', 'safe'),
    violations: maybe(list(violation, 'a list of violations')),
    unavailable: maybe(
      list(record('an interval', { fromUs: whole(MICROS), toUs: whole(MICROS) }), 'a list of intervals'),
    ),
    claims: maybe(
      list(
        formed(/^c[1-9]\d*@(0|[1-9]\d*)$/, 'a claim such as "c1@4000" (client and microseconds)'),
        'a list of claims',
      ),
    ),
    writes: maybe(
      list(
        formed(
          /^c[1-9]\d*@(0|[1-9]\d*) (accepted|stale|refused)$/,
          'a write such as "c1@4000 refused" (client, microseconds, and accepted, stale or refused)',
        ),
        'a list of writes',
      ),
    ),
    hash: maybe(text('a trace hash')),
  }),
).register(definitions, { id: 'Expectation' });

const place = () => formed(/^\//, 'a JSON pointer into the schedule, such as "/cluster/delayUs"');

const change: z.ZodType<Change> = exactly<Change>()(
  z.discriminatedUnion(
    'op',
    [
      record('a change', { op: z.enum(['replace', 'add']), path: place(), value: anything('the value to put there') }),
      record('a removal', { op: z.literal('remove'), path: place() }),
    ],
    { error: wrongTag('a change', 'op', ['replace', 'add', 'remove']) },
  ),
).register(definitions, { id: 'Change' });

const variant: z.ZodType<Variant> = exactly<Variant>()(
  record('a variant', {
    title: text('a title'),
    with: maybe(text('a mitigation, such as "persistence=always"')),
    change: maybe(list(change, 'a list of changes')),
    expect: expectation,
  }),
).register(definitions, { id: 'Variant' });

/** The form of a scenario. */
export const scenarioGrammar: z.ZodType<Scenario> = exactly<Scenario>()(
  record('a scenario', {
    schema: oneOf('lockstep.scenario/1'),
    id: text('an id'),
    slug: maybe(text('a name')),
    title: text('a title'),
    story: text('a story'),
    source: text('a source'),
    schedule: scheduleGrammar,
    expect: expectation,
    flips: list(variant, 'a list of variants'),
    noFlips: maybe(text('a reason')),
    neighbours: list(variant, 'a list of variants'),
    noNeighbours: maybe(text('a reason')),
  }),
).register(definitions, { id: 'Scenario' });
