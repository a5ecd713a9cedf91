import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

test.each([
  ['an unknown flag', ['check', '--ttll', '10s'], "unknown option '--ttll' (did you mean --ttl?)"],
  ['an unknown verb', ['chek'], "unknown command 'chek' (did you mean check?)"],
  ['too many arguments', ['list', 'S03'], "too many arguments for 'list'. Expected 0 arguments but got 1; see --help"],
  ['a flag without its value', ['check', '--seed'], "option '--seed <text>' argument missing; see --help"],
  ['a negative TTL', ['--ttl', '-1'], '--ttl: "-1" is not a duration; write it like 10s, 50ms or 250us'],
  ['a TTL without a unit', ['--ttl', '10'], '--ttl: duration "10" has no unit; write it like 10s, 50ms or 250us'],
  ['no nodes', ['--nodes', '0'], '--nodes: "0" is not a whole number from 1 to 31'],
  [
    'more votes than nodes',
    ['--target-votes', '6'],
    '--target-votes: 6 is more than there are nodes; use 5, all or quorum',
  ],
  [
    'an unknown policy',
    ['--profile', 'referense'],
    '--profile: "referense" is not a profile; did you mean "reference"?',
  ],
  [
    'a misspelt client',
    ['--profile', 'redlok-php'],
    '--profile: "redlok-php" is not a profile; did you mean "redlock-php"?',
  ],
  [
    'an unknown property',
    ['--properties', 'quorum-backd'],
    '--properties: "quorum-backd" is not a property that the search looks for; did you mean "quorum-backed"?',
  ],
  ['an unknown fault', ['--faults', 'crsh=1'], '--faults: "crsh" is not a fault; did you mean "crash"?'],
  ['a fault named twice', ['--faults', 'crash,crash'], '--faults: "crash" is named twice; name each fault once'],
  [
    'a restart delay without crashes',
    ['--faults', 'loss=1%', '--restart-delay', '0'],
    '--restart-delay: no node ever crashes in this search; add crash=1 or power-loss=1 to --faults',
  ],
  ['an unknown scenario', ['replay', 'SO3'], '"SO3" is not a scenario; did you mean "S03"?'],
  ['nothing to replay', ['replay'], 'replay what? Give the id of a scenario (see list), a file, or --all'],
  [
    'an unknown format',
    ['replay', 'S03', '--format', 'jsn'],
    '--format: "jsn" is not one of its values; did you mean "json"?',
  ],
  [
    'a mitigation without a value',
    ['replay', 'S03', '--with', 'persistence'],
    'mitigation "persistence" has no value; write persistence=always|everysec|rdb|none',
  ],
  [
    'a missing file',
    ['replay', 'nowhere.json'],
    'nowhere.json: there is no such file; give a file of a scenario or a schedule, or an id that list shows',
  ],
  ['a threshold that is none', ['bench', '--effort', '0'], '--effort: "0" is not a number above 0; write it like 0.5'],
])('%s is told in one sentence, with exit code 64', async (_name, argv, sentence) => {
  const ran = await lockstep(argv);
  expect(ran).toEqual({ code: 64, stdout: '', stderr: `lockstep: ${sentence}\n` });
});

test('files that are cut off or have a wrong field are told with their place', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'cut.json'), '{ "schema": "lockstep.scenario/1", "id": ');
  writeFileSync(join(cwd, 'wrong.json'), '{ "schema": "lockstep.schedule/1", "clustr": {} }');
  expect((await lockstep(['replay', 'cut.json'], { cwd })).stderr).toBe(
    'lockstep: cut.json: the file ends too early, at line 1, column 42; it must be one complete JSON object\n',
  );
  expect((await lockstep(['replay', 'wrong.json'], { cwd })).stderr).toMatch(
    /^lockstep: wrong\.json: \/clustr: .*"cluster"/,
  );
});

test('help and the version are no errors', async () => {
  expect(await lockstep(['--version'])).toEqual({ code: 0, stdout: '0.1.0\n', stderr: '' });
  for (const verb of ['check', 'replay', 'list', 'bench']) {
    const { code, stdout } = await lockstep([verb, '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain(`\n  lockstep ${verb}`);
  }
});

test('help names a verb, or what is below it, and says the same as --help', async () => {
  expect(await lockstep(['help'])).toEqual(await lockstep(['--help']));
  expect(await lockstep(['help', 'check'])).toEqual(await lockstep(['check', '--help']));
  expect(await lockstep(['help', 'campaign', 'merge'])).toEqual(await lockstep(['campaign', 'merge', '--help']));
  const unknown = async (...names: string[]) => (await lockstep(['help', ...names])).stderr;
  expect(await unknown('chek')).toBe('lockstep: "chek" is no verb; did you mean "check"?\n');
  expect(await unknown('list', 'all')).toBe('lockstep: list has no verbs below it; leave out "all"\n');
});

test('help and results fit a narrow terminal, and no word is broken', async () => {
  const stdout = { columns: 60, write: () => true };
  const words = (text: string): string[] => text.split(/\s+/);
  const wide = await lockstep(['check', '--help']);
  for (const argv of [['--help'], ['check', '--help'], ['campaign', '--help'], ['replay', '--help']]) {
    const narrow = await lockstep(argv, { stdout });
    const long = narrow.stdout.split('\n').filter((line) => line.length > 60);
    // A command that is to be pasted stays in one piece.
    expect(long.filter((line) => !/^ {2,}lockstep \S/.test(line))).toEqual([]);
    if (argv[0] === 'check') expect(words(narrow.stdout)).toEqual(words(wide.stdout));
  }
  const narrow = await lockstep(['check', '--runs', '300'], { stdout });
  expect(narrow.code).toBe(0);
  expect(Math.max(...narrow.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(60);
});

test('a bug of the program does not read as a finding', async () => {
  const broken = {
    get aborted(): boolean {
      throw new TypeError('out of order');
    },
  } as AbortSignal;
  const { code, stderr } = await lockstep(['check', '--runs', '1'], { signal: broken });
  expect(code).toBe(70);
  expect(stderr).toBe('lockstep: internal error: out of order (LOCKSTEP_DEBUG=1 shows where)\n');
});

test('the policies are listed with the sources of their values, all of it as JSON', async () => {
  const { code, stdout } = await lockstep(['list', '--profiles']);
  expect(code).toBe(0);
  expect(stdout.split('\n').filter((line) => / (\S+@\S+|the sound one.*)$/.test(line))).toHaveLength(28);
  expect(stdout).toMatch(/^redlock-php +php +ronnylt\/redlock-php +ronnylt\/redlock-php@535d616f24$/m);
  const { schema, policies } = JSON.parse((await lockstep(['list', '--profiles', '--json'])).stdout);
  expect(schema).toBe('lockstep.policies/2');
  expect(policies).toHaveLength(28);
  expect(policies.find(({ id }: { id: string }) => id === 'redlock-php')).toMatchObject({
    origin: { language: 'php', unknown: [] },
    policy: { deviations: expect.arrayContaining(['float-majority']), habits: { clock: 'wall' } },
  });
});

test('a search can follow the policy of a known client', async () => {
  const ran = await lockstep([
    'check',
    '--profile',
    'node-redlock-5',
    '--runs',
    '300',
    '--no-regressions',
    '--no-shrink',
    '--properties',
    'acquisition',
  ]);
  expect(ran.code).toBe(1);
  expect(ran.stdout).toContain('acquisition');
});

test('without anything it shows what a violation looks like, and goes by a configuration where there is one', async () => {
  const cwd = emptyFolder();
  const bare = await lockstep([], { cwd });
  expect(bare).toMatchObject({ code: 0, stderr: '' });
  expect(bare.stdout).toContain('✗ mutual exclusion');
  expect(bare.stdout).toContain('\nnext ');
  writeFileSync(join(cwd, 'lockstep.config.json'), JSON.stringify({ check: { runs: '10', ttl: '5s' } }));
  const configured = await lockstep([], { cwd });
  expect(configured.stdout).not.toContain('✗');
  expect(configured.stdout).toContain('ttl 5 000');
});
