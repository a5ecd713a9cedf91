import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { layOut } from '../scenarios/json-layout.js';
import { formatDiff } from './diff-text.js';
import { mermaid } from './mermaid.js';
import { PLAIN } from './painter.js';
import { perfetto, perfettoText } from './perfetto.js';
import { staticPicture } from './picture/layout.js';
import { svgFile } from './picture/svg.js';
import { CATALOGUE, sceneNamed } from './testing/scenes.js';
import { traceJsonSchema } from './trace-grammar.js';

describe('the JSON trace', () => {
  test('has a published schema that is up to date (vitest -u writes it)', async () => {
    await expect(layOut(traceJsonSchema())).toMatchFileSnapshot('./trace.schema.json');
  });

  test('is what the schema says, in every scenario, and nothing else is', () => {
    const schema = z.fromJSONSchema(traceJsonSchema());
    for (const { id } of CATALOGUE) {
      const { schedule, events } = sceneNamed(id);
      const trace = {
        schema: 'lockstep.trace/1',
        id,
        verdict: 'safe',
        hash: '0123456789abcdef',
        schedule,
        trace: events,
      };
      expect({ id, problems: schema.safeParse(trace).error?.issues ?? [] }).toEqual({ id, problems: [] });
      expect(schema.safeParse({ ...trace, trace: [{ ...events[0], atUs: 'soon' }] }).success).toBe(false);
    }
  });
});

describe('the sequence diagram', () => {
  test('of S03 has each participant, message, fault and the violation', async () => {
    const text = mermaid(sceneNamed('S03'));
    expect(text.match(/->>|-->>|--x/g)).toHaveLength(18);
    expect(text.match(/--x/g)).toHaveLength(2);
    expect(text).toContain('  actor c2\n  participant n0\n');
    expect(text).toContain('Note over n2: 3 ms: crashes, restarts at once');
    expect(text).toContain('Note over c1,n4: ✗ c1 and c2 both believe to hold a');
  });

  test('has no statement that its grammar does not know, in any scenario', () => {
    const statement =
      /^(sequenceDiagram| {2}%% .*| {2}actor \w+| {2}participant \w+| {2}Note over [\w,]+: [^;]+| {2}\w+(->>|-->>|--x)\w+: [^;]+|)$/;
    for (const { id } of CATALOGUE) {
      const wrong = mermaid(sceneNamed(id))
        .replaceAll(/#\d+;/g, '')
        .split('\n')
        .filter((line) => !statement.test(line));
      expect({ id, wrong }).toEqual({ id, wrong: [] });
    }
  });
});

test('the Perfetto trace comes in pieces that are the whole', () => {
  const scene = sceneNamed('S03');
  const pieces = [...perfettoText(scene)];
  expect(pieces.join('')).toBe(`${JSON.stringify(perfetto(scene))}\n`);
});

test('the Perfetto trace has a name for each lane, a length for each span, and both ends of each flow', () => {
  for (const { id } of CATALOGUE) {
    const { traceEvents } = perfetto(sceneNamed(id));
    const lanes = new Set(traceEvents.filter(({ name }) => name === 'thread_name').map(({ tid }) => tid));
    const of = (phase: string): typeof traceEvents => traceEvents.filter(({ ph }) => ph === phase);
    expect(traceEvents.every((it) => lanes.has(it.tid) && Number.isInteger(it.ts) && it.ts >= 0)).toBe(true);
    expect(of('X').every(({ dur = -1 }) => dur >= 0)).toBe(true);
    expect(of('f').map((it) => it.id)).toEqual(of('s').map((it) => it.id));
  }
});

test('two runs side by side: where they part comes first', () => {
  const named = (name: string, mitigation?: string) => ({ scene: sceneNamed('S03', mitigation), name });
  const text = formatDiff(named('as written'), named('with persistence=always', 'persistence=always'), PLAIN);
  expect(text).toMatchSnapshot();
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(88);
  expect(formatDiff(named('as written'), named('the same'), PLAIN)).toBe(
    '  The two runs are the same, event for event.\n',
  );
});

describe('the pictures of the documents are up to date (npm run docs:pictures writes them)', () => {
  const folder = new URL('../docs/pictures/', import.meta.url);
  const shown = ['README.md', 'docs/scenarios.md', 'docs/tour.md'].flatMap((name) => [
    ...readFileSync(new URL(`../${name}`, import.meta.url), 'utf8').matchAll(/pictures\/(S\w+)\.svg/g),
  ]);
  test.each([...new Set(shown.map(([, id = '']) => id))])('%s', async (id) => {
    await expect(svgFile(staticPicture(sceneNamed(id)))).toMatchFileSnapshot(`${folder.pathname}${id}.svg`);
  });
});
