import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

const SEARCH = [
  'campaign',
  '--ttl',
  '10s',
  '--faults',
  'failover=1,replica-lag=1ms',
  '--runs',
  '160',
  '--range-runs',
  '20',
];

describe('a campaign without a queue', () => {
  test('comes to the same in shards that are merged, and in one piece that was stopped', async () => {
    const cwd = emptyFolder();
    const whole = await lockstep([...SEARCH, '--json'], { cwd });
    const result = JSON.parse(whole.stdout);
    expect(whole.stderr).toBe('');
    expect(result).toMatchObject({
      schema: 'lockstep.campaign-result/1',
      runs: 160,
      ranges: { total: 8, done: 8, missing: [] },
    });
    expect(whole.code).toBe(result.verdict === 'violated' ? 1 : 0);
    for (const shard of ['1/3', '2/3', '3/3']) {
      const { stdout } = await lockstep([...SEARCH, '--shard', shard, '--out', `${shard[0]}.json`], { cwd });
      expect(stdout).toContain(`(shard ${shard[0]} of 3)`);
    }
    const merged = await lockstep(['campaign', 'merge', '1.json', '3.json', '2.json', '--json'], { cwd });
    expect(JSON.parse(merged.stdout)).toEqual(result);
    expect(merged.code).toBe(whole.code);
    const some = await lockstep(['campaign', 'merge', '1.json', '3.json', '--json', '--out', 'some.json'], { cwd });
    expect(JSON.parse(some.stdout).ranges).toEqual({
      total: 8,
      done: 5,
      missing: [
        [1, 2],
        [4, 5],
        [7, 8],
      ],
    });
    const resumed = await lockstep([...SEARCH, '--out', 'some.json', '--resume', '--json'], { cwd });
    expect(JSON.parse(resumed.stdout)).toEqual(result);
    const twice = await lockstep(['campaign', 'merge', '1.json', '1.json'], { cwd });
    expect(twice).toMatchObject({ code: 64, stderr: 'lockstep: range 0 is in two of these parts\n' });
  });

  test('shares its runs among policies and classes of faults by weight', async () => {
    const argv = [
      'campaign',
      '--profiles',
      '2*reference; redlock-php',
      '--fault-classes',
      'crash=1; loss=2%',
      '--json',
    ];
    const { stdout } = await lockstep([...argv, '--runs', '60', '--range-runs', '10']);
    const { searches } = JSON.parse(stdout);
    expect(searches.map(({ name, weight, runs }: Record<string, unknown>) => [name, weight, runs])).toEqual([
      ['reference with crash=1', 2, 20],
      ['reference with loss=2%', 2, 20],
      ['redlock-php with crash=1', 1, 10],
      ['redlock-php with loss=2%', 1, 10],
    ]);
  });

  test('ends when its time is over, between two ranges, with what there is', async () => {
    const cwd = emptyFolder();
    const argv = ['campaign', '--runs', '100000000', '--range-runs', '50', '--budget', '300ms', '--out', 'a.json'];
    const { code, stdout } = await lockstep([...argv, '--json'], { cwd });
    const { verdict, runs, ranges } = JSON.parse(stdout);
    expect({ code, verdict, total: ranges.total }).toEqual({ code: 2, verdict: 'inconclusive', total: 2_000_000 });
    expect(ranges.done).toBeGreaterThan(0);
    expect(runs).toBe(ranges.done * 50);
    expect(ranges.missing).toEqual([[ranges.done, 2_000_000]]);
    // What is written can be gone on with.
    const again = await lockstep([...argv, '--resume', '--json'], { cwd });
    expect(JSON.parse(again.stdout).ranges.done).toBeGreaterThan(ranges.done);
  });

  test('that is stopped leaves a file to go on with', async () => {
    const cwd = emptyFolder();
    const { code } = await lockstep([...SEARCH, '--out', 'part.json'], { cwd, signal: AbortSignal.abort() });
    expect(code).toBe(130);
    expect(JSON.parse(readFileSync(join(cwd, 'part.json'), 'utf8'))).toMatchObject({ done: [], failures: [] });
  });
});

test.each([
  ['a shard that is none', ['--shard', '3/2'], '--shard: "3/2" is no shard; write it like 2/8'],
  [
    'a shard that goes nowhere',
    ['--shard', '1/2'],
    '--shard: where does it go? Add --out part.json, which "campaign merge" adds up',
  ],
  [
    'a policy twice',
    ['--profiles', 'reference;reference'],
    '--profiles: "reference" is named twice; name each profile once',
  ],
  [
    'a class of no faults',
    ['--fault-classes', 'crsh'],
    '--fault-classes: "crsh" is not a fault; did you mean "crash"?',
  ],
  ['no queue', ['status'], '--queue: which Redis server? Give redis://host:port, or set LOCKSTEP_QUEUE'],
  [
    'a name that is none',
    ['status', '--queue', 'redis://127.0.0.1:1', '--name', 'a b'],
    '--name: it has up to 64 letters, digits, - and _',
  ],
])('%s is told in one sentence', async (_, argv, sentence) => {
  expect(await lockstep(['campaign', ...argv])).toEqual({ code: 64, stdout: '', stderr: `lockstep: ${sentence}\n` });
});

test('the file of a shard may be anywhere, and where it cannot be written that is said', async () => {
  const cwd = emptyFolder();
  const elsewhere = join(emptyFolder(), 'new', 'part.json');
  const made = await lockstep([...SEARCH, '--shard', '1/4', '--out', elsewhere], { cwd });
  expect(made).toMatchObject({ code: 0, stderr: '' });
  const resumed = await lockstep([...SEARCH, '--shard', '1/4', '--out', elsewhere, '--resume'], { cwd });
  expect(resumed).toEqual(made);
  writeFileSync(join(cwd, 'a-file'), '');
  const { code, stderr } = await lockstep([...SEARCH, '--out', 'a-file/part.json'], { cwd });
  expect(code).toBe(64);
  expect(stderr).toMatch(/^lockstep: --out: a-file\/part.json cannot be written: .+\n$/);
});

test('a file that is no part is told by its name', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'other.json'), '{"schema":"something"}');
  expect((await lockstep(['campaign', 'merge', 'other.json'], { cwd })).stderr).toBe(
    'lockstep: other.json: it is no part of a campaign, or not as it was written; give a file that "campaign --out" has written\n',
  );
});
