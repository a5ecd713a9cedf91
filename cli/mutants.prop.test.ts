import { expect, test } from 'vitest';
import { MUTANTS } from '../search/index.js';
import { lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

test('strategies are compared in one table', async () => {
  const { code, stdout } = await lockstep(['mutants', '--strategies', '--seeds', '1', '--runs', '1', '--workers', '1']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^id +uniform +swarm +biased +structured +combination +guided$/m);
  expect(stdout).toMatch(/^M04 +1 +\d+ +1 +\d+ +1 +\d+ +1 +\d+ +1 +\d+ +1 +\d+$/m);
  expect(stdout).toMatch(/^M38 .*> 1 +\d+/m);
  expect(stdout).toMatch(/^caught( +\d+\/\d+){6}$/m);
  const argv = ['mutants', '--strategies', '--seeds', '1', '--runs', '1', '--workers', '1', '--json'];
  const { schema, mutants } = JSON.parse((await lockstep(argv)).stdout);
  expect(schema).toBe('lockstep.mutants-strategies/1');
  expect(mutants.find(({ id }: { id: string }) => id === 'M04').byStrategy.guided).toMatchObject({
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
