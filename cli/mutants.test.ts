import { expect, test } from 'vitest';
import { MUTANTS } from '../properties/index.js';
import { lockstep } from './testing/in-process.js';

/** The planted bugs that one search of a single schedule catches are the same each time. */
const QUICK = ['mutants', '--seeds', '1', '--runs', '1'];

test('planted bugs as JSON keep their contract', async () => {
  const { code, stdout, stderr } = await lockstep([...QUICK, '--json']);
  const { mutants, ...rest } = JSON.parse(stdout);
  const caught = mutants.filter((it: { caughtBy: string | null }) => it.caughtBy !== null);
  expect(Object.keys(JSON.parse(stdout))[0]).toBe('schema');
  expect(rest).toEqual({ schema: 'lockstep.mutants/1', caught: caught.length, total: MUTANTS.length });
  expect(mutants.map(({ id }: { id: string }) => id)).toEqual(MUTANTS.map(({ id }) => id));
  expect(mutants.find(({ id }: { id: string }) => id === 'M04')).toMatchObject({
    caughtBy: 'acquisition',
    historiesMedian: 1,
    cpuMsMedian: expect.any(Number),
    shrunkEvents: expect.any(Number),
  });
  // One schedule is too little for most of them, and that is no success.
  expect(caught.length).toBeLessThan(MUTANTS.length);
  expect({ code, stderr }).toEqual({ code: 4, stderr: '' });
});

test('planted bugs are a table for people, and those that got away are told of', async () => {
  const { code, stdout } = await lockstep(QUICK);
  expect(code).toBe(4);
  expect(stdout).toMatch(/^ *id +caught by +searches +schedules +cpu ms +events$/m);
  expect(stdout).toMatch(/^ *M04 +acquisition +1\/1 +1 +[\d.]+ +\d+$/m);
  expect(stdout).toMatch(/^not caught: M38 {2}A late extension /m);
  expect(stdout).toMatch(/^\d+ of \d+ planted bugs caught; medians of 1 search of 1 schedule at most\.$/m);
});

test('an interrupted hunt tells what it has, and exits with 130', async () => {
  const { code, stdout } = await lockstep(['mutants', '--json'], { signal: AbortSignal.abort() });
  expect(code).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({ mutants: [], caught: 0, total: MUTANTS.length });
});
