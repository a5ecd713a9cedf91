import { expect, test } from 'vitest';
import { lockstep } from './testing/in-process.js';

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
