import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { expect, it } from 'vitest';
import { lockstep } from '../testing/in-process.js';
import { annotations } from './github.js';
import type { Suite } from './outcome.js';
import { sarifLog } from './sarif.js';
import { SUITE } from './testing/suite.js';

// The schema that OASIS published (errata 01). Of draft 4, it uses nothing that later drafts read otherwise.
const path = new URL('./testing/sarif-2.1.0.schema.json', import.meta.url);
const { $schema: _, id: __, ...schema } = JSON.parse(readFileSync(path, 'utf8'));
const isValid = new Ajv({ strict: false, validateFormats: false }).compile(schema);

/** A log that is as the standard wants it. */
function logOf(text: string) {
  const log = JSON.parse(text);
  isValid(log);
  expect(isValid.errors).toBe(null);
  return log.runs[0];
}

const AUDITED: Suite = {
  ...SUITE,
  cases: [
    ...SUITE.cases,
    {
      name: 'src/a b.ts: mutual exclusion: blind-release',
      result: 'failed',
      message: 'it deletes',
      file: 'src/a b.ts',
      line: 7,
      column: 5,
      rule: 'blind-release',
      title: 'Its release is blind.',
      property: 'mutual-exclusion',
      help: 'compare first',
      replay: 'lockstep audit --replay x.json',
    },
    { name: 'src/b.ts: cleanup: leak', result: 'skipped', file: 'src/b.ts', rule: 'leak', isAccepted: true },
  ],
};

it('is valid SARIF whatever the texts are, with a rule for each name of a finding', () => {
  const { tool, results } = logOf(sarifLog(AUDITED, '1.2.3'));
  expect(tool.driver.rules.map(({ id }: { id: string }) => id)).toEqual([
    'mutual-exclusion',
    'fencing',
    'blind-release',
    'leak',
  ]);
  expect(tool.driver.rules[2]).toMatchObject({
    shortDescription: { text: 'Its release is blind.' },
    fullDescription: { text: expect.stringMatching(/hold/) },
    help: { text: 'To mend it: compare first' },
  });
  expect(results.map(({ level, ruleIndex }: Record<string, unknown>) => [level, ruleIndex])).toEqual([
    ['error', 0],
    ['warning', 1],
    ['error', 2],
    ['error', 3],
  ]);
  expect(results[2]).toMatchObject({
    ruleId: 'blind-release',
    message: { text: 'it deletes\nTo see it again: lockstep audit --replay x.json' },
    locations: [
      { physicalLocation: { artifactLocation: { uri: 'src/a%20b.ts' }, region: { startLine: 7, startColumn: 5 } } },
    ],
  });
  expect(results[3].suppressions).toHaveLength(1);
});

it('is not what the schema takes for one where a field is of another type', () => {
  const log = JSON.parse(sarifLog(AUDITED, '1.2.3'));
  log.runs[0].results[0].level = 'bad';
  expect(isValid(log)).toBe(false);
});

it('comes from every verb with a reporter, alone on stdout', async () => {
  const found = await lockstep(['check', '--demo', '--reporter', 'sarif']);
  expect(found.code).toBe(0);
  const [result] = logOf(found.stdout).results;
  expect(result.ruleId).toBe('mutual-exclusion');
  expect(result.message.text).toMatch(/To see it again: lockstep replay \.lockstep\/failures\/1-\d+\.json$/);
  const passed = await lockstep(['check', '--runs', '300', '--reporter', 'sarif']);
  expect(logOf(passed.stdout).results).toEqual([]);
});

it('annotations have the line', () => {
  expect(annotations(AUDITED)).toContain(
    '::error title=src/a b.ts%3A mutual exclusion%3A blind-release,file=src/a b.ts,line=7::it deletes\n',
  );
});
