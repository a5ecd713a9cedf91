import { describe, expect, it } from 'vitest';
import { parseSchedule } from '../../scenarios/index.js';
import { lock, schedule, unreached } from '../../sim/testing/schedule.js';
import { explain } from './explain.js';
import { piecesOf } from './pieces.js';
import { oneStepsOf } from './reduce.js';
import { withoutNode } from './without-node.js';

const full = schedule({
  cluster: {
    clocks: [{ process: 'n4', offsetUs: 3, ratePpm: 0 }],
    distances: [{ client: 'c2', node: 'n3', delayUs: 7 }],
  },
  policy: { settings: { votesWanted: 5 } },
  locks: [
    [lock(0, { resources: ['a', 'b'], holdUs: 5, extensions: [{ afterUs: 1, ttlMs: 10_000 }], jitterPpm: [7] })],
    [lock(10, { writes: [{ checkAfterUs: 1, guardUs: 2, sendAfterUs: 3, delayUs: 4 }] })],
  ],
  faults: [
    { kind: 'partition', atUs: 17, from: ['c1', 'c2'], to: ['n0', 'n2'], oneWay: true, forUs: 1_234 },
    { kind: 'crash', node: 'n3', atUs: 3_000, restartAfterUs: 10, edge: 'after', power: true },
  ],
  fates: [
    { client: 'c2', operation: 'acquire', node: 'n3', direction: 'reply', delayUs: 1_357, duplicateDelayUs: 9 },
    ...unreached('c1', 'n2'),
  ],
});

describe('what can be left out', () => {
  it('is everything that there is', () => {
    expect(piecesOf(full).map(({ kind, name }) => `${kind}: ${name}`)).toMatchInlineSnapshot(`
      [
        "client: c1",
        "client: c2",
        "fault: partition of c1, c2 at 0.017 ms",
        "fault: crash of n3 at 3 ms",
        "node: n0",
        "node: n1",
        "node: n2",
        "node: n3",
        "node: n4",
        "operation: the lock of c1",
        "operation: the release of the lock of c1",
        "operation: extension 1 of the lock of c1",
        "operation: resource a of the lock of c1",
        "operation: resource b of the lock of c1",
        "operation: the jitter of the lock of c1",
        "operation: the lock of c2",
        "operation: write 1 of the lock of c2",
        "message: delay of the answer to acquire from n3 to c2",
        "message: loss of the acquire from c1 to n2",
        "message: copy of the answer to acquire from n3 to c2",
        "clock: clock error of n4",
        "detail: c1 in the partition of c1, c2 at 0.017 ms",
        "detail: c2 in the partition of c1, c2 at 0.017 ms",
        "detail: n0 in the partition of c1, c2 at 0.017 ms",
        "detail: n2 in the partition of c1, c2 at 0.017 ms",
        "detail: the edge of the crash of n3 at 3 ms",
        "detail: the power of the crash of n3 at 3 ms",
      ]
    `);
  });

  it('leaves a valid schedule each time, as rounding does', () => {
    for (const smaller of oneStepsOf(full)) expect(parseSchedule(smaller)).toEqual(smaller);
  });

  it('a node goes with all that names it, and those behind it move up', () => {
    const { cluster, policy, faults, fates } = withoutNode(full, 2);
    expect(cluster).toMatchObject({ nodes: 4, clocks: [{ process: 'n3' }], distances: [{ node: 'n2' }] });
    expect(policy.settings?.votesWanted).toBe(4);
    expect(faults).toMatchObject([{ from: ['c1', 'c2'], to: ['n0'] }, { node: 'n2' }]);
    expect(fates).toMatchObject([{ node: 'n2' }]);
  });
});

it('says of each piece what comes of the failure without it', () => {
  const plan = schedule({
    locks: [[lock(0)], [lock(2_000)], [lock(20_000_000)]],
    faults: [{ kind: 'crash', node: 'n2', atUs: 3_000, restartAfterUs: 0 }],
    fates: unreached('c1', 'n3', 'n4'),
  });
  const said = explain(plan, 'mutual-exclusion').map(({ piece, without }) => `${piece}: ${without}`);
  expect(said).toEqual([
    'c1: passes',
    'c2: passes',
    'c3: fails',
    'crash of n2 at 3 ms: passes',
    ...['n0', 'n1', 'n2', 'n3', 'n4'].map((node) => `${node}: passes`),
    'the lock of c1: passes',
    'the lock of c2: passes',
    'the lock of c3: fails',
    'loss of the acquire from c1 to n3: passes',
    'loss of the acquire from c1 to n4: passes',
  ]);
});
