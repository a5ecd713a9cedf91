import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { formatClientFailure, type RecordedClient } from '../libraries/failure-file.js';
import { findScenario, loadCatalogue } from '../scenarios/catalogue.js';
import { formatScenario, formatSchedule } from '../scenarios/index.js';
import { replayScenario } from './replay-all.js';
import { emptyFolder, lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

test.each(loadCatalogue().map((scenario) => [scenario.id, scenario] as const))(
  'scenario %s, its flips and its neighbours give what they should',
  (_id, scenario) => {
    const { difference, variants } = replayScenario(scenario);
    const differences = variants.map((variant) => [variant.title, variant.difference]);
    expect({ difference, differences }).toEqual({
      difference: null,
      differences: variants.map((variant) => [variant.title, null]),
    });
  },
);

test('a failure of another client is not replayed with the lock of Lockstep, which would pass', async () => {
  const cwd = emptyFolder();
  const { schedule } = findScenario('S03');
  const failure = { kind: 'belief', extending: false, schedule } as const;
  const write = (name: string, client: RecordedClient): void =>
    writeFileSync(join(cwd, name), formatClientFailure({ ...failure, client }));
  write('library.json', { from: 'library', name: 'redlock5' });
  write('test.json', { from: 'test', name: 'the client' });
  expect(await lockstep(['replay', './library.json'], { cwd, command: 'npx lockstep' })).toEqual({
    code: 64,
    stdout: '',
    stderr:
      'lockstep: ./library.json: it was recorded with redlock5, and here runs the lock of Lockstep; ' +
      'run npx lockstep libraries --replay ./library.json --only redlock5\n',
  });
  const ofTest =
    "the client of a test, and here runs the lock of Lockstep; let that test call expectSafe(…, { replay: './test.json' })";
  for (const argv of [
    ['replay', './test.json'],
    ['replay', './test.json', '--format', 'html'],
    ['check', './test.json'],
  ])
    expect(await lockstep(argv, { cwd })).toMatchObject({ code: 64, stderr: expect.stringContaining(ofTest) });
});

test('a replay keeps its JSON contract', async () => {
  const { code, stdout } = await lockstep(['replay', 'S03', '--json']);
  expect(code).toBe(0);
  const replay = JSON.parse(stdout);
  expect(Object.keys(replay)[0]).toBe('schema');
  expect(replay).toMatchObject({
    schema: 'lockstep.replay/1',
    id: 'S03',
    verdict: 'violated',
    verdicts: { belief: 'violated', effect: 'unchecked', liveness: 'unchecked', unavailable: [] },
    availability: [],
    assumptionsBroken: ['durability'],
    hash: expect.stringMatching(/^[0-9a-f]{16}$/),
    events: expect.any(Number),
    reproduced: true,
  });
  expect(replay.violations).toContainEqual({
    property: 'mutual-exclusion',
    kind: 'belief',
    atUs: 4000,
    untilUs: 9898000,
    resource: 'a',
    detail: expect.any(String),
  });
});

test('the trace is there for programs', async () => {
  const { code, stdout } = await lockstep(['replay', 'S03', '--format', 'json']);
  expect(code).toBe(0);
  const { schema, trace, schedule } = JSON.parse(stdout);
  expect({ schema, schedule }).toEqual({ schema: 'lockstep.trace/1', schedule: findScenario('S03').schedule });
  expect(trace[0]).toMatchObject({ seq: 0, kind: 'call', process: 'c1' });
});

test('a mitigation is compared with the flip that the scenario declares', async () => {
  const { code, stdout } = await lockstep(['replay', 'S03', '--with', 'persistence=always']);
  expect(code).toBe(0);
  expect(stdout).toContain('✓ reproduced: safe, as expected');
});

test('without a declared flip the verdict decides', async () => {
  expect((await lockstep(['replay', 'S03', '--with', 'ttl=5s'])).code).toBe(1);
  expect((await lockstep(['replay', 'S13', '--with', 'drift-allowance=2%'])).code).toBe(0);
});

test('a scenario that expects something else is not reproduced', async () => {
  const cwd = emptyFolder();
  const scenario = findScenario('S03');
  writeFileSync(join(cwd, 'other.json'), formatScenario({ ...scenario, expect: { verdict: 'safe' } }));
  const { code, stdout } = await lockstep(['replay', 'other.json'], { cwd });
  expect(code).toBe(3);
  expect(stdout).toContain('✗ not reproduced: expected safe, but it is violated');
});

test('a bare schedule says 1 if it is violated and 0 if it is safe', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'bad.json'), formatSchedule(findScenario('S03').schedule));
  writeFileSync(join(cwd, 'good.json'), formatSchedule({ ...findScenario('S03').schedule, faults: [] }));
  expect((await lockstep(['replay', 'bad.json'], { cwd })).code).toBe(1);
  expect((await lockstep(['replay', 'good.json'], { cwd })).code).toBe(0);
  expect(JSON.parse((await lockstep(['replay', 'bad.json', '--json'], { cwd })).stdout).reproduced).toBeNull();
});

test('the whole catalogue as JSON keeps its contract', async () => {
  const { stdout } = await lockstep(['replay', '--all', '--json']);
  const { schema, scenarios, reproduced, total } = JSON.parse(stdout);
  expectToFit(JSON.parse(stdout));
  expect(schema).toBe('lockstep.replay-all/1');
  expect(scenarios).toHaveLength(total);
  expect(scenarios.find((it: { id: string }) => it.id === 'S03')).toMatchObject({
    expected: 'violated',
    verdict: 'violated',
    reproduced: true,
  });
  expect(scenarios.filter((it: { reproduced: boolean }) => it.reproduced)).toHaveLength(reproduced);
});

test('the list shows ids, verdicts and titles', async () => {
  const { code, stdout } = await lockstep(['list']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^S03 +restart-without-persistence +violated +A node restarts at /m);
  const { schema, scenarios } = JSON.parse((await lockstep(['list', '--json'])).stdout);
  expect(schema).toBe('lockstep.list/1');
  expect(Object.keys(scenarios[0])).toEqual(['id', 'slug', 'title', 'expect', 'source']);
  expect(scenarios[0].expect).toBe('violated');
});

test('--explain leaves out each piece by itself and says what happens', async () => {
  const { code, stdout } = await lockstep(['replay', 'S03', '--explain']);
  expect(code).toBe(0);
  expect(stdout).toContain('what comes of mutual exclusion without each piece by itself');
  expect(stdout).toMatch(/fault +crash of n2 at 3 ms +passes/);
  const { stdout: json } = await lockstep(['replay', 'S03', '--explain', '--json']);
  const { property, pieces } = JSON.parse(json).explained;
  expect(property).toBe('mutual-exclusion');
  expect(pieces).toContainEqual({ kind: 'client', piece: 'c1', without: 'passes' });
});

test('--explain needs a violation', async () => {
  const { code, stderr } = await lockstep(['replay', 'S03', '--with', 'persistence=always', '--explain']);
  expect(code).toBe(64);
  expect(stderr).toBe('lockstep: nothing is violated in S03, so there is nothing to explain\n');
});

test('other forms go to stdout as whole files', async () => {
  const { stdout: svg } = await lockstep(['replay', 'S03', '--format', 'svg']);
  expect(svg).toMatch(/^<svg .*<\/svg>\n$/s);
  const { stdout: diagram } = await lockstep(['replay', 'S03', '--format', 'mermaid']);
  expect(diagram).toMatch(/^sequenceDiagram\n/);
  const { stdout: trace } = await lockstep(['replay', 'S03', '--format', 'perfetto']);
  expect(JSON.parse(trace)).toMatchObject({ displayTimeUnit: 'ms' });
});

test('--diff says where the run with a mitigation parts from the one without, and wants one', async () => {
  const { code, stdout } = await lockstep(['replay', 'S03', '--with', 'persistence=always', '--diff']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/as written: violated\n.* {2}with persistence=always: safe\n/s);
  expect(stdout).toContain('The runs part at 3 ms: as written, n2: A forgotten');
  expect((await lockstep(['replay', 'S03', '--diff'])).stderr).toContain('--with persistence=always');
});

test('--diff compares with another schedule, as text, as a page and as JSON', async () => {
  const text = await lockstep(['replay', 'S03', '--diff', 'S04']);
  expect(text.code).toBe(0);
  expect(text.stdout).toMatch(/^S03 and S04\n {2}in S03: violated\n.* {2}in S04: violated\n/s);
  expect(text.stdout.replaceAll(/\s+/g, ' ')).toContain(
    'The runs part at 0 ms: in S03, c1: SET A NX PX 10 000 → n0; in S04: SET A NX PX 10 000 → n0: lost.',
  );
  const { stdout: json } = await lockstep(['replay', 'S03', '--diff', 'S04', '--json']);
  expect(JSON.parse(json)).toMatchObject({
    schema: 'lockstep.diff/1',
    a: { id: 'S03', verdict: 'violated' },
    b: { id: 'S04', verdict: 'violated' },
    first: { a: 1, b: 1 },
  });
  const same = await lockstep(['replay', 'S03', '--diff', 'S03']);
  expect(same.stdout).toContain('The two runs are the same, event for event.');
});

test.each([
  [['replay', 'S03', '--diff', 'S04', '--with', 'ttl=2s'], 'leave out one of the two'],
  [['replay', 'S03', '--diff', 'S04', '--format', 'svg'], '--diff is told as text'],
  [['replay', 'S03', '--diff', 'S99'], 'S99'],
])('%s is refused in one sentence', async (argv, sentence) => {
  const { code, stdout, stderr } = await lockstep(argv);
  expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
  expect(stderr).toContain(sentence);
});
