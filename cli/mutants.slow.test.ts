import { expect, test } from 'vitest';
import { MUTANTS } from '../search/index.js';
import { lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

test('strategies are compared in one table', async () => {
  const { code, stdout } = await lockstep(['mutants', '--strategies', '--seeds', '1', '--runs', '1', '--workers', '1']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^id +uniform +swarm +biased +structured +combination$/m);
  expect(stdout).toMatch(/^M04 +1 +\d+ +1 +\d+ +1 +\d+ +1 +\d+ +1 +\d+$/m);
  expect(stdout).toMatch(/^M38 .*> 1 +\d+/m);
  expect(stdout).toMatch(/^caught( +\d+\/\d+){5}$/m);
  const argv = ['mutants', '--strategies', '--seeds', '1', '--runs', '1', '--workers', '1', '--json'];
  const { schema, mutants } = JSON.parse((await lockstep(argv)).stdout);
  expect(schema).toBe('lockstep.mutants-strategies/1');
  expect(mutants.find(({ id }: { id: string }) => id === 'M04').byStrategy.combination).toMatchObject({
    caught: 1,
    searches: 1,
  });
});

test('planted bugs as JSON keep their contract', async () => {
  const { code, stdout, stderr } = await lockstep([
    'mutants',
    '--seeds',
    '1',
    '--runs',
    '1',
    '--workers',
    '1',
    '--json',
  ]);
  const { mutants, ...rest } = JSON.parse(stdout);
  expectToFit(JSON.parse(stdout));
  const caught = mutants.filter((it: { caughtBy: string | null }) => it.caughtBy !== null);
  expect(Object.keys(JSON.parse(stdout))[0]).toBe('schema');
  expect(rest).toEqual({
    schema: 'lockstep.mutants/1',
    caught: caught.length,
    total: MUTANTS.length,
    seeds: 1,
    runs: 1,
    strategy: 'combination',
  });
  expect(mutants.map(({ id }: { id: string }) => id)).toEqual(MUTANTS.map(({ id }) => id));
  expect(mutants.find(({ id }: { id: string }) => id === 'M04')).toMatchObject({
    caughtBy: 'acquisition',
    historiesMedian: 1,
    heldOut: false,
    cpuMsMedian: expect.any(Number),
    shrunkEvents: expect.any(Number),
  });
  // One schedule is too little for most of them, and that is no success.
  expect(caught.length).toBeLessThan(MUTANTS.length);
  expect({ code, stderr }).toEqual({ code: 4, stderr: '' });
});

/** The planted bugs that one search of a single schedule catches are the same each time. */
const QUICK = ['mutants', '--seeds', '1', '--runs', '1', '--workers', '1'];

/** One hunt, as a person sees it on a terminal. */
const seen = lockstep(QUICK, { stderr: { isTTY: true, write: () => true } });

test('planted bugs are a table for people, and those that got away are told of', async () => {
  const { code, stdout } = await seen;
  expect(code).toBe(4);
  expect(stdout).toMatch(/^ *id +caught by +searches +schedules +cpu ms +events$/m);
  expect(stdout).toMatch(/^ *M04 +acquisition +1\/1 +1 +[\d.]+ +\d+$/m);
  expect(stdout).toMatch(/^not caught: M38 {2}A late extension /m);
  expect(stdout).toMatch(
    /^\d+ of \d+ planted bugs caught; medians of 1 search of 1 schedule at most, strategy combination\.$/m,
  );
});

test('the bugs that are held out have a table of their own', async () => {
  const { stdout } = await seen;
  const [tuned = '', held = ''] = stdout.split(/^held out: .*$/m);
  expect(tuned).toMatch(/^M04 /m);
  expect(held).not.toMatch(/^M04 /m);
  expect(held).toMatch(/^M35 /m);
  expect(tuned).toMatch(/^hardest: \S+, 1 schedule; within 100: \d+ of \d+$/m);
  expect(stdout).toMatch(/^[\d.]+ s of CPU for the first search of each, [\d.]+ s for all\.$/m);
});

test('a comparison has no strategy of its own, and can be interrupted', async () => {
  expect(await lockstep(['mutants', '--strategies', '--strategy', 'swarm'])).toMatchObject({ code: 64, stdout: '' });
  const { code, stdout } = await lockstep(['mutants', '--strategies', '--json'], { signal: AbortSignal.abort() });
  expect(code).toBe(130);
  expect(JSON.parse(stdout).mutants).toEqual([]);
});

test('progress of a hunt is one line on a terminal', async () => {
  const { stderr } = await seen;
  expect(stderr).toMatch(/hunting M\d+, 3 of \d+ done, about \d+ s left/);
  expect(stderr).not.toContain('\n');
});

test('an interrupted hunt tells what it has, and exits with 130', async () => {
  const { code, stdout } = await lockstep(['mutants', '--json'], { signal: AbortSignal.abort() });
  expect(code).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({ mutants: [], caught: 0, total: MUTANTS.length });
});
