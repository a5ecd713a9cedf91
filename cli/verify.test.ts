import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { emptyFolder, lockstep, type Ran } from './testing/in-process.js';

const lock = (name: string, atUs: number): object[] => [
  { type: 'acquire', lock: name, client: 'c1', resources: ['a'], ttlMs: 10, atUs },
  { type: 'acquired', lock: name, atUs: atUs + 100, validUs: 9_000 },
];
const lines = (events: readonly object[]): string => events.map((event) => `${JSON.stringify(event)}\n`).join('');

/** Verifies a file with this text. */
function verify(text: string, ...flags: readonly string[]): Promise<Ran> {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'run.jsonl'), text);
  return lockstep(['verify', 'run.jsonl', ...flags], { cwd });
}

test('a history that proves nothing passes', async () => {
  const text = lines([...lock('x', 0), ...lock('y', 20_000)]);
  expect(await verify(text)).toEqual({ code: 0, stdout: '✓ passed: 2 operations\n', stderr: '' });
});

test('a history with two holders at once is violated, and says where', async () => {
  expect(await verify(lines([...lock('x', 0), ...lock('y', 5_000)]))).toEqual({
    code: 1,
    stdout: [
      '✗ violated: 2 operations, 1 violation',
      '  lines 2, 4: mutual-exclusion: locks "x" and "y" both hold a from 5100 to 9100 µs',
      '',
    ].join('\n'),
    stderr: '',
  });
});

test('a history of which nothing is certain is inconclusive', async () => {
  const { code, stdout } = await verify('');
  expect([code, stdout]).toEqual([2, '? inconclusive: 0 operations\n  in doubt: no lock was ever held\n']);
  const cut = await verify(lines(lock('x', 0)).slice(0, -10));
  expect(cut.code).toBe(2);
});

test('the verdict keeps its JSON contract', async () => {
  const { code, stdout } = await verify(lines([...lock('x', 0), ...lock('y', 5_000)]), '--json');
  const found = JSON.parse(stdout);
  expect([code, Object.keys(found)]).toEqual([1, ['schema', 'verdict', 'operations', 'violations', 'doubts']]);
  expect(found).toEqual({
    schema: 'lockstep.verify/1',
    verdict: 'violated',
    operations: 2,
    violations: [{ property: 'mutual-exclusion', resource: 'a', lines: [2, 4], detail: expect.any(String) }],
    doubts: [],
  });
});

test('clocks that may be off prove less', async () => {
  const text = lines([...lock('x', 0), ...lock('y', 5_000)]);
  expect((await verify(text, '--clock-error', '1ms')).code).toBe(1);
  expect((await verify(text, '--clock-error', '2ms')).code).toBe(0);
  expect((await verify(text, '--clock-error', 'soon')).code).toBe(64);
});

test('several files are one history, and what is wrong is told with its file', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'one.jsonl'), lines(lock('x', 0)));
  writeFileSync(join(cwd, 'two.jsonl'), lines(lock('y', 5_000)));
  const both = await lockstep(['verify', 'one.jsonl', 'two.jsonl'], { cwd });
  expect([both.code, both.stdout.split('\n')[0]]).toEqual([1, '✗ violated: 2 operations, 1 violation']);
  writeFileSync(join(cwd, 'two.jsonl'), `${lines(lock('y', 5_000))}{}\n${lines(lock('z', 9_000))}`);
  expect((await lockstep(['verify', 'one.jsonl', 'two.jsonl'], { cwd })).stderr).toMatch(
    /^lockstep: two.jsonl: line 3: /,
  );
});

test('a long list of findings is cut', async () => {
  const events = Array.from({ length: 30 }, (_, i) => lock(`l${i}`, i)).flat();
  const { stdout } = await verify(lines(events));
  expect(stdout.split('\n')).toHaveLength(23);
  expect(stdout).toMatch(/ {2}… and 9 more; --json has them all\n$/);
});

test('what is wrong with a file is said in one sentence, with exit code 64', async () => {
  expect(await verify('{"type":"released"}\n')).toEqual({
    code: 64,
    stdout: '',
    stderr: 'lockstep: run.jsonl: line 1: /lock must be a text that names the lock, but it is undefined\n',
  });
  expect(await lockstep(['verify', 'nowhere.jsonl'])).toEqual({
    code: 64,
    stdout: '',
    stderr: 'lockstep: nowhere.jsonl: there is no such file; give a file of JSON lines that clients recorded\n',
  });
  expect((await lockstep(['verify'])).code).toBe(64);
});
