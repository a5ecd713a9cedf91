import { expect, test } from 'vitest';
import { lockstep } from './testing/in-process.js';

test('what cannot be played on real nodes is refused with its reason, and needs no nodes', async () => {
  const { code, stdout, stderr } = await lockstep(['replay', 'S13', '--real']);
  expect({ code, stderr }).toEqual({ code: 2, stderr: '' });
  expect(stdout.replace(/\s+/g, ' ')).toContain(
    '? not played: with noise of up to 20 ms its verdict is safe where it should be violated (mutual-exclusion)',
  );
  const fixed = await lockstep(['replay', 'S01', '--real', '--json']);
  expect(fixed.code).toBe(2);
  expect(JSON.parse(fixed.stdout)).toEqual({
    schema: 'lockstep.replay-real/1',
    id: 'S01',
    simulated: 'violated',
    real: null,
    status: 'refused',
    reason: 'cluster.replicaLagUs: own nodes have no replicas to fail over to',
  });
});

test.each([
  [['replay', 'S03', '--real', '--with', 'ttl=2s'], '--real plays a schedule as it is'],
  [['replay', 'S03', '--real', '--format', 'json'], '--real plays a schedule as it is'],
  [['replay', '--real'], 'replay what?'],
  [['chaos', '--duration', '5'], '--duration: duration "5" has no unit'],
  [['chaos', '--rounds', '3'], "unknown option '--rounds'"],
  [['bench', '--clients', 'upstash'], '--clients: "upstash" is not a client'],
  [['bench', '--safety', '--rounds', '3'], '--safety measures nothing'],
  [['chaos', '--simulated', 'redis@8.4'], '--simulated: "redis@8.4" is not an edition'],
  [['chaos', '--nodes', '1', '--simulated', 'redis@8.4.0,valkey@9.0.0'], '--simulated names 2 nodes'],
])('%s is refused in one sentence', async (argv, sentence) => {
  const { code, stdout, stderr } = await lockstep(argv);
  expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
  expect(stderr).toContain(`lockstep: ${sentence}`);
});
