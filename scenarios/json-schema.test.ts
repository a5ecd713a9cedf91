import { expect, test } from 'vitest';
import { z } from 'zod';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { layOut } from './json-layout.js';
import { scenarioJsonSchema } from './json-schema.js';

test('the published file is up to date (vitest -u writes it)', async () => {
  await expect(layOut(scenarioJsonSchema())).toMatchFileSnapshot('./scenario.schema.json');
});

test('it takes what the parser takes, and knows the form', () => {
  const schema = z.fromJSONSchema(scenarioJsonSchema());
  expect(schema.safeParse(everyField).success).toBe(true);
  const { untilUs: _, ...withoutEnd } = everyField.schedule;
  expect(schema.safeParse({ ...everyField, schedule: withoutEnd }).success).toBe(false);
  expect(schema.safeParse({ ...everyField, colour: 'red' }).success).toBe(false);
});

test('a schedule alone has a definition of its own', () => {
  expect(Object.keys(scenarioJsonSchema().$defs ?? {})).toEqual(
    expect.arrayContaining(['Schedule', 'Cluster', 'Fault', 'Fate', 'Expectation', 'Variant']),
  );
});
