import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

interface Searched {
  readonly crashes: number;
  readonly pauses: number;
  readonly ttlsMs: readonly number[];
  readonly properties: readonly string[];
}

/** What a search made of its flags. */
async function searched(argv: readonly string[], cwd = emptyFolder()): Promise<Searched> {
  const { stdout } = await lockstep(['check', '--runs', '1', '--json', ...argv], { cwd });
  const { faultModel, properties } = JSON.parse(stdout).configuration;
  return { crashes: faultModel.crashes, pauses: faultModel.pauses, ttlsMs: faultModel.ttlsMs, properties };
}

const LISTS = ['--faults', 'crash=1', '--faults', 'pause=2', '--ttl', '1s', '--ttl', '3s'];
const PROPERTIES = ['--properties', 'quorum-backed', '--properties', 'cleanup'];

describe('a flag that takes a list', () => {
  it('adds up where it is repeated', async () => {
    expect(await searched([...LISTS, ...PROPERTIES])).toEqual({
      crashes: 1,
      pauses: 2,
      ttlsMs: [1_000, 3_000],
      properties: ['quorum-backed', 'cleanup'],
    });
  });

  it('adds up where the configuration has a list', async () => {
    const cwd = emptyFolder();
    const check = { faults: ['crash=1', 'pause=2'], ttl: ['1s', '3s'], properties: ['quorum-backed', 'cleanup'] };
    writeFileSync(join(cwd, 'lockstep.config.json'), JSON.stringify({ check }));
    expect(await searched([], cwd)).toEqual(await searched([...LISTS, ...PROPERTIES]));
  });

  it.each([
    [
      ['campaign', '--fault-classes', 'crash=1', '--fault-classes', '2*pause=1'],
      ['crash=1', 'pause=1'],
    ],
    [
      ['campaign', '--profiles', 'reference', '--profiles', 'redlock-php'],
      ['reference', 'redlock-php'],
    ],
  ])('adds up in %j', async (argv, names) => {
    const { stdout } = await lockstep([...argv, '--runs', '2', '--workers', '1', '--json']);
    expect(JSON.parse(stdout).searches.map((it: { readonly name: string }) => it.name)).toEqual(names);
  });

  it('names no fault twice, and none beside others', async () => {
    const twice = await lockstep(['check', '--faults', 'crash=1', '--faults', 'crash=2']);
    expect(twice).toMatchObject({
      code: 64,
      stderr: 'lockstep: --faults: "crash" is named twice; name each fault once\n',
    });
    const none = await lockstep(['check', '--faults', 'none', '--faults', 'crash=2']);
    expect(none).toMatchObject({
      code: 64,
      stderr: 'lockstep: --faults: "none" leaves no other fault; leave it out, or the others\n',
    });
  });
});

test.each([
  [['check', '--seed', 'a', '--seed', 'b'], '--seed'],
  [['check', '--nodes', '3', '--nodes', '3'], '--nodes'],
  [['--restart-delay', '0', '--restart-delay=ttl', '--faults', 'crash'], '--restart-delay'],
  [['replay', 'S03', '--format', 'svg', '--format', 'json'], '--format'],
  [['replay', 'S03', '--diff', 'S04', '--diff'], '--diff'],
  [['explore', '--crash', '1', '--crash', '2'], '--crash'],
  [['sweep', 'ttl', 'drift', '--report', 'a.html', '--report', 'b.html'], '--report'],
  [['mutants', '--runs', '1', '--runs', '2'], '--runs'],
  [['libraries', '--file', './a.ts', '--file', './b.ts'], '--file'],
  [['verify', 'x.jsonl', '--clock-error', '1ms', '--clock-error', '2ms'], '--clock-error'],
  [['bench', '--rounds', '1', '--rounds', '2'], '--rounds'],
  [['campaign', '--shard', '1/2', '--shard', '2/2'], '--shard'],
  [['campaign', '--name', 'a', 'status', '--name', 'b'], '--name'],
  [['list', '--config', 'a.json', '--config=b.json'], '--config'],
])('%j: a flag of one value that is given twice is refused', async (argv, flag) => {
  const ran = await lockstep(argv);
  expect(ran).toEqual({ code: 64, stdout: '', stderr: `lockstep: ${flag}: it is given twice; give it once\n` });
});

test.each([
  [['check', '--no-regressions', '--regressions', 'mine'], '--regressions', '--no-regressions'],
  [['list', '--no-config', '--config', 'a.json'], '--config', '--no-config'],
])('%j: a flag beside what contradicts it is refused', async (argv, flag, other) => {
  const { code, stderr } = await lockstep(argv);
  expect({ code, stderr }).toEqual({
    code: 64,
    stderr: `lockstep: ${flag}: it contradicts ${other}; leave out one of them\n`,
  });
});

test('a switch that is given twice is on', async () => {
  expect((await lockstep(['list', '--json', '--json'])).code).toBe(0);
});

test('a flag of one value has no list in a configuration', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'lockstep.config.json'), JSON.stringify({ check: { seed: ['a', 'b'] } }));
  expect(await lockstep(['check', '--runs', '1'], { cwd })).toEqual({
    code: 64,
    stdout: '',
    stderr: 'lockstep: lockstep.config.json: check.seed: it takes one value, not a list of 2\n',
  });
});
