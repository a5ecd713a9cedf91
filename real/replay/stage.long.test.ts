import { describe, expect, test } from 'vitest';
import { realOutcome } from '../../cli/real-outcome.js';
import { findScenario } from '../../scenarios/catalogue.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { notReplayableReason, playOnRedis } from './index.js';

const { signal } = new AbortController();

test.each([
  ['S01', 'cluster.replicaLagUs: own nodes have no replicas to fail over to'],
  ['S17', 'cluster.clocks: the clocks of clients run at the rate of the machine’s'],
  ['S18', null],
  ['S19', null],
  ['S69', 'faults[0].atUs: when redis-server writes to its disk is not ours to say'],
  ['S08b', 'cluster.answers: redis-server answers when a write is on disk, not before'],
  ['S71', 'cluster.scripts: its clients send scripts by their text'],
  ['S03', null],
])('%s: %s', (id, reason) => {
  expect(notReplayableReason(findScenario(id).schedule, true)).toBe(reason);
});

test('clocks of nodes need libfaketime', () => {
  const { schedule } = findScenario('S20');
  expect(notReplayableReason(schedule, false)).toContain('libfaketime');
  expect(notReplayableReason(schedule, true)).toBeNull();
});

describe.skipIf(!canRunOnRedis('scenarios on real nodes', 'processes'))('a scenario on real nodes', () => {
  // One of each kind: amnesia, a flush, errors, dead nodes, a plain DEL, an outage, a pause, a power cut, a lost majority.
  test.concurrent.each(['S03', 'S15b', 'S65', 'S52', 'S34', 'S12', 'S23', 'S07', 'S57'])(
    '%s gives the verdict that it has in the simulator',
    { timeout: 100_000 },
    async (id) => {
      const { schedule, expect: expected } = findScenario(id);
      const { status, reason } = await realOutcome(id, schedule, expected, signal);
      // A machine too slow to tell is not a difference.
      if (status === 'noisy') console.warn(`SKIPPED ${id}: the machine is too slow to tell (${reason})`);
      else expect({ status, reason }).toEqual({ status: 'agreed', reason: null });
    },
  );

  test('ends at once when it is told to', async () => {
    const controller = new AbortController();
    // Time for the servers to start; played to its end it takes ten seconds.
    setTimeout(() => controller.abort(), 3000);
    const begun = performance.now();
    const { history } = await playOnRedis(findScenario('S03').schedule, { signal: controller.signal });
    expect(performance.now() - begun).toBeLessThan(9_000);
    expect(history[0]).toMatchObject({ type: 'acquire', client: 'c1' });
  });
});
