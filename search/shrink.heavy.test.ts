import { describe, expect, it } from 'vitest';
import { judge } from '../properties/judge.js';
import { type Fault, parseSchedule, type Schedule } from '../scenarios/index.js';
import { lock, schedule, unreached } from '../sim/testing/schedule.js';
import { shrink } from './shrink.js';
import { explain } from './shrinking/explain.js';

/** S03 with what a random search leaves lying around. */
const noisy: Schedule = schedule({
  cluster: {
    clocks: [
      { process: 'n1', offsetUs: 123_456, ratePpm: 3 },
      { process: 'c3', offsetUs: 5, ratePpm: 0 },
    ],
  },
  locks: [
    [lock(0, { jitterPpm: [3, 4] }), lock(15_000_123)],
    [lock(2_000, { extensions: [{ afterUs: 4_567_891, ttlMs: 10_000 }] })],
    [lock(20_000_777, { holdUs: 12_345 })],
  ],
  faults: [
    { kind: 'pause', process: 'c3', atUs: 4_321, forUs: 777 },
    { kind: 'crash', node: 'n2', atUs: 3_000, restartAfterUs: 0 },
    { kind: 'partition', atUs: 17, from: ['c3'], to: ['n0', 'n1'], oneWay: true, forUs: 1_234 },
    { kind: 'crash', node: 'n4', atUs: 12_000_001, restartAfterUs: 17_000 },
  ],
  fates: [
    ...unreached('c1', 'n3', 'n4'),
    { client: 'c2', operation: 'acquire', node: 'n0', direction: 'reply', delayUs: 1_357 },
    { client: 'c3', operation: 'release', node: 'n1', direction: 'request', duplicateDelayUs: 2_468 },
  ],
});

const brokenBy = (plan: Schedule): unknown[] => judge(plan).violations.map(({ property }) => property);

describe('a failing schedule with noise', () => {
  const { schedule: small, tried } = shrink(noisy, 'mutual-exclusion');

  it('is made small: two clients, one crash, and the votes it takes', () => {
    expect(small.clients.map(({ id, locks }) => `${id} ${locks.length}`)).toEqual(['c1 1', 'c2 1']);
    expect(small.faults).toMatchObject([{ kind: 'crash', restartAfterUs: 0 }]);
    expect(small.fates.length).toBeLessThanOrEqual(2);
    expect(small.cluster.clocks).toEqual([]);
    expect(small.clients.flatMap(({ locks }) => locks.flatMap((it) => [...it.extensions, ...it.jitterPpm]))).toEqual(
      [],
    );
  });

  it('still breaks the same property, and no assumption that it did not break before', () => {
    expect(brokenBy(small)).toContain('mutual-exclusion');
    expect(judge(small).assumptionsBroken).toEqual(['durability']);
  });

  it('is a valid schedule all the way, found without trying for ever', () => {
    expect(parseSchedule(small)).toEqual(small);
    expect(tried).toBeLessThan(3_000);
  });

  it('is the same each time, and does not get smaller', () => {
    expect(shrink(noisy, 'mutual-exclusion').schedule).toEqual(small);
    expect(shrink(small, 'mutual-exclusion').schedule).toEqual(small);
  });
});

describe('a failing schedule of a deployment that somebody asked about', () => {
  const crash: Fault = { kind: 'crash', node: 'n2', atUs: 3_000, restartAfterUs: 2_345_678 };
  const found = {
    ...noisy,
    faults: noisy.faults.map((it) =>
      it.kind !== 'crash' ? it : it.node === 'n2' ? crash : { ...it, restartAfterUs: 3_000_001 },
    ),
  };
  const plan = {
    ...found,
    clients: found.clients.map((client) => (client.id === 'c2' ? { ...client, locks: [lock(3_000_000)] } : client)),
  };

  it('is made small on its nodes, and with restarts that are no sooner', () => {
    const { schedule: small } = shrink(plan, 'mutual-exclusion', { nodes: 5, leastRestartUs: 2_000_000 });
    expect(small.cluster.nodes).toBe(5);
    expect(small.faults).toMatchObject([{ kind: 'crash', restartAfterUs: 2_000_000 }]);
    expect(explain(small, 'mutual-exclusion', true).map(({ kind }) => kind)).not.toContain('node');
  });

  it('is another one where nobody asked', () => {
    const { schedule: small } = shrink(plan, 'mutual-exclusion');
    expect(small.faults).toMatchObject([{ kind: 'crash', restartAfterUs: 0 }]);
    expect(explain(small, 'mutual-exclusion').map(({ kind }) => kind)).toContain('node');
  });
});

it('shrinking does not go from one assumption to another', () => {
  const step: Fault = { kind: 'clock-step', process: 'n2', atUs: 2_000, byUs: 20_000_000 };
  const plan = schedule({ locks: [[lock(0)], [lock(2_000)]], faults: [step], fates: unreached('c1', 'n3', 'n4') });
  const { schedule: small } = shrink(plan, 'mutual-exclusion');
  expect(judge(small).assumptionsBroken).toEqual(['clock-step']);
  expect(small.faults).toMatchObject([{ kind: 'clock-step' }]);
});

it('shrinking takes times of any length and either sign', () => {
  const day = 86_400_000_000;
  const plan = schedule({
    cluster: { clocks: [{ process: 'n0', offsetUs: -day, ratePpm: 0 }] },
    locks: [[lock(0)], [lock(2_000)], [lock(20_000_000, { holdUs: day })]],
    faults: [
      { kind: 'crash', node: 'n2', atUs: 3_000, restartAfterUs: 0 },
      { kind: 'clock-step', process: 'n4', atUs: 20_000_000, byUs: -day },
      { kind: 'pause', process: 'c3', atUs: 20_000_000, forUs: day },
    ],
    fates: unreached('c1', 'n3', 'n4'),
  });
  const { schedule: small } = shrink(plan, 'mutual-exclusion');
  expect(small.clients).toHaveLength(2);
  expect(small.faults).toHaveLength(1);
  expect(small.cluster.clocks).toEqual([]);
});

it('a schedule that does not fail is left as it is', () => {
  const plan = schedule();
  expect(shrink(plan, 'mutual-exclusion')).toEqual({ schedule: plan, tried: 1 });
});

it('ends where a figure that is made rounder is put back by another', () => {
  // A write is never sent before its check: at 29 089 ms neither of the first can move alone.
  const write = { guardUs: 520_001, delayUs: 495_233 };
  const writes = [
    { ...write, checkAfterUs: 29_089_000, sendAfterUs: 29_089_000 },
    { ...write, checkAfterUs: 29_089_511, sendAfterUs: 29_109_511 },
  ];
  const found: Schedule = {
    ...schedule({ cluster: { nodes: 1 }, policy: { settings: { fencing: true } }, untilUs: 90_000_000 }),
    clients: [{ id: 'c1', locks: [lock(0, { ttlMs: 30_000, writes })] }],
    resource: 'fencing-strict',
  };
  expect(judge(found, ['fencing']).violations.map(({ property }) => property)).toContain('fencing');
  expect(shrink(found, 'fencing').tried).toBeLessThan(2_000);
});
