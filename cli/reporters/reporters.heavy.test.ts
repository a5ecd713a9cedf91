import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { emptyFolder, lockstep } from '../testing/in-process.js';
import { annotations, jobSummary } from './github.js';
import { SUITE } from './testing/suite.js';

describe('github', () => {
  it('escapes what would end an annotation', () => {
    const [first, second, ...others] = annotations(SUITE).trimEnd().split('\n');
    expect(first).toMatch(
      /^::error title=mutual exclusion,file=a%3Ab%2Cc\.json::a < b .*%250A é%0Asecond: line, 100%25/,
    );
    expect(second).toBe('::warning title=fencing::too little');
    expect(others).toEqual([]);
  });

  it('appends a summary to that of the job, with the failure as text', async () => {
    const cwd = emptyFolder();
    const path = join(cwd, 'summary.md');
    writeFileSync(path, 'before\n');
    const env = { GITHUB_STEP_SUMMARY: path };
    const { code, stdout } = await lockstep(['check', '--demo', '--reporter', 'github'], { cwd, env });
    expect(code).toBe(0);
    expect(stdout).toContain('✗ mutual exclusion');
    expect(stdout.match(/^::error title=mutual exclusion,file=\.lockstep\/failures\/1-\d+\.json::/gm)).toHaveLength(1);
    const summary = readFileSync(path, 'utf8');
    expect(summary).toMatch(/^before\n## lockstep check\n/);
    expect(summary).toContain('| mutual exclusion | ✗ failed |');
    expect(summary).toMatch(/```text\n.*✗ mutual exclusion[\s\S]*\n```/);
  });

  it('says nothing of what passed, and goes on where the summary cannot be written', async () => {
    const env = { GITHUB_STEP_SUMMARY: '/nowhere/at/all.md' };
    const { code, stdout, stderr } = await lockstep(['check', '--runs', '300', '--reporter', 'github'], { env });
    expect(code).toBe(0);
    expect(stdout).not.toContain('::');
    expect(stderr).toContain('the job summary could not be written');
  });

  it('keeps a table a table, and a fence a fence', () => {
    const text = 'a\n```\nb';
    const markdown = jobSummary({ ...SUITE, cases: [{ name: 'a|b\nc', result: 'failed', text }] });
    expect(markdown).toContain('| a\\|b c | ✗ failed |');
    expect(markdown).toContain('````text\na\n```\nb\n````');
  });
});

describe('minimal', () => {
  it('is a line for each failure, and one for all', async () => {
    const failed = await lockstep(['check', '--demo', '--reporter', 'minimal']);
    expect(failed.stdout.split('\n')).toEqual([
      expect.stringMatching(/^✗ mutual exclusion: .*voted twice.* \(\.lockstep\/failures\/1-\d+\.json\)$/),
      expect.stringMatching(/^violated: \d+ schedules, [\d ]+ events, seed 1$/),
      '',
    ]);
    const passed = await lockstep(['check', '--runs', '300', '--reporter', 'minimal']);
    expect(passed.stdout).toMatch(/^✓ passed: 300 schedules, .*\n$/);
  });
});

it('known schedules that no longer reproduce are told by every reporter', async () => {
  const cwd = emptyFolder();
  await lockstep(['check', '--demo'], { cwd });
  const name = readdirSync(join(cwd, '.lockstep/failures')).find((it) => it.endsWith('.json')) ?? '';
  const path = join(cwd, '.lockstep/failures', name);
  writeFileSync(path, readFileSync(path, 'utf8').replace(/"hash": "[0-9a-f]+"/, '"hash": "0000000000000000"'));
  for (const reporter of ['junit', 'github', 'minimal']) {
    const { code, stdout } = await lockstep(['check', '--runs', '1', '--reporter', reporter], { cwd });
    expect({ reporter, code }).toEqual({ reporter, code: 3 });
    expect(stdout).toContain(`known schedule .lockstep/failures/${name}`);
  }
});

it.each([
  [['check', '--json', '--reporter', 'junit'], '--json: it is another reporter than junit; leave out one of them'],
  [
    ['replay', 'S03', '--reporter', 'junit'],
    '--reporter: it tells of many schedules in the simulator; add --all, or leave it out',
  ],
  [['mutants', '--strategies', '--reporter', 'junit'], '--strategies: it is a table; leave out --reporter'],
  [['check', '--reporter', 'juni'], '--reporter: "juni" is not one of its values; did you mean "junit"?'],
])('%j makes no sense, which is said in one sentence', async (argv, sentence) => {
  expect(await lockstep(argv)).toEqual({ code: 64, stdout: '', stderr: `lockstep: ${sentence}\n` });
});
