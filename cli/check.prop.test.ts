import { expect, test } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

test('a search around a scenario finds what the scenario shows', async () => {
  const { code, stdout } = await lockstep(['check', 'S03', '--runs', '3000'], { cwd: emptyFolder() });
  expect(code).toBe(1);
  expect(stdout).toContain('5 nodes, quorum 3, ttl 10 000 ms');
});

test.each(['clock-drift', 'clock-step', 'restart-delay', 'data-loss', 'write-delay'])(
  'a step past the bound on %s is found at once',
  async (assumption) => {
    const { code, stdout } = await lockstep(['check', '--exceed', assumption, '--json'], { cwd: emptyFolder() });
    expect(code).toBe(1);
    const { runs, assumptionsBroken } = JSON.parse(stdout);
    expect(runs).toBeLessThan(1_000);
    expect(assumptionsBroken).toHaveLength(1);
  },
);

test.each(['failover=1,replica-lag=100ms', 'data-loss=3'])(
  'faults that the lock does not withstand are found: %s',
  async (faults) => {
    const argv = ['check', '--faults', `${faults},partition=1`, '--properties', 'quorum-backed', '--json'];
    const { code, stdout } = await lockstep(argv);
    expect(code).toBe(1);
    expect(JSON.parse(stdout).assumptionsBroken).toEqual([
      faults.startsWith('data-loss') ? 'durability' : 'durable-failover',
    ]);
  },
);

test.each([
  ['power-loss=1', /n\d +loses power, restarts at once; . forgotten/],
  ['crash=1', /n\d +crashes, restarts at once; . forgotten/],
])(
  'disks that are written every second forget under %s, and the counterexample says which disks',
  async (faults, event) => {
    const argv = ['check', '--faults', faults, '--restart-delay', '0', '--persistence', 'everysec'];
    const { code, stdout } = await lockstep([...argv, '--runs', '10000'], { cwd: emptyFolder() });
    expect(code).toBe(1);
    expect(stdout).toContain('persistence everysec');
    expect(stdout).toMatch(event);
    expect(stdout).toMatch(/voted twice, it forgot . in the restart/);
  },
);
