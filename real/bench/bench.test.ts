import { expect, test } from 'vitest';
import { benchDocument, safetyDocument } from './document.js';
import { type BenchResult, drawBench, formatBench } from './index.js';
import { jain, medianWithInterval, quantile } from './statistics.js';
import { thresholdsOf } from './thresholds.js';

test('quantiles interpolate between the values', () => {
  expect([quantile([3, 1, 2], 0.5), quantile([1, 2], 0.5), quantile([5], 0.99), quantile([], 0.5)]).toEqual([
    2, 1.5, 5, 0,
  ]);
});

// The ranks of the tables of the sign test.
test.each([
  [5, 1, 5],
  [6, 1, 6],
  [9, 2, 8],
  [21, 6, 16],
  [31, 10, 22],
  [100, 40, 61],
])('the interval of the median of %d values is from the %dth to the %dth', (count, low, high) => {
  const values = Array.from({ length: count }, (_, index) => count - index);
  expect(medianWithInterval(values)).toEqual({ median: (count + 1) / 2, low, high });
});

test("Jain's index is 1 of equal shares and 1/n of one share", () => {
  expect([jain([2, 2, 2]), jain([0, 0, 5, 0]), jain([0, 0])]).toEqual([1, 0.25, 0]);
});

const ROW = {
  subject: 'lockstep',
  nodes: 5,
  shape: 'serial',
  health: 'three-stopped',
  opsPerSecond: 4,
  p50Us: 250_000,
  p99Us: 260_000,
  cpuUsPerOp: 99,
  ratioToFloor: null,
  operations: 10,
  failed: 10,
  failures: ['ERR_LOCK_QUORUM_UNREACHABLE'],
  stalledMs: null,
  contention: null,
} as const;

test('a threshold is missed by a slow lock, by a wrong failure, and by one that comes too late', () => {
  const ratio = (median: number) => ({ median, low: median - 0.1, high: median + 0.1 });
  const compared = (against: 'floor' | 'redlock@4.2.0' | 'floor on node-redis@6', median: number) =>
    ({
      nodes: 5,
      shape: 'serial',
      health: 'healthy',
      subject: 'lockstep',
      against,
      ops: ratio(median),
      cpu: ratio(1),
    }) as const;
  const peer = { ...ROW, subject: 'redlock@4.2.0', health: 'healthy' } as const;
  const metOf = (
    rows: BenchResult['rows'],
    comparisons: BenchResult['comparisons'],
    delays: BenchResult['delays'] = [],
  ) => thresholdsOf(rows, comparisons, delays).map(({ met }) => met);
  expect(metOf([], [compared('floor', 1.06)])).toEqual([true, true]);
  expect(metOf([], [compared('floor', 1.04)])).toEqual([false, true]);
  expect(metOf([peer], [compared('redlock@4.2.0', 0.91)])).toEqual([true]);
  expect(metOf([peer], [compared('redlock@4.2.0', 0.89)])).toEqual([false]);
  const onClient = { ...ROW, subject: 'lockstep on node-redis@6', health: 'healthy', opsPerSecond: 9_999 } as const;
  expect(metOf([peer, onClient], [compared('redlock@4.2.0', 0.91)])).toEqual([true]);
  expect(metOf([], [compared('floor on node-redis@6', 0.9)])).toEqual([true]);
  expect(metOf([], [compared('floor on node-redis@6', 0.89)])).toEqual([false]);
  expect(metOf([ROW], [])).toEqual([true]);
  expect(metOf([{ ...ROW, failed: 9 }], [])).toEqual([false]);
  expect(metOf([{ ...ROW, failures: ['stalled'] }], [])).toEqual([false]);
  expect(metOf([{ ...ROW, p99Us: 400_000 }], [])).toEqual([false]);
  const delay = {
    nodes: 5,
    health: 'one-slow',
    p50Us: 900,
    healthyP50Us: 500,
    p99Us: 9000,
    healthyP99Us: 4500,
  } as const;
  expect(metOf([], [], [delay])).toEqual([false, true]);
});

test('a result prints as tables', () => {
  const result: BenchResult = {
    schema: 'lockstep.bench/1',
    machine: {
      node: 'v20',
      platform: 'linux x64',
      cpu: 'A CPU',
      cpus: 2,
      redis: '5 × redis-server 7',
      ioredis: '5.11.1',
    },
    rounds: 7,
    interrupted: true,
    rows: [
      { ...ROW, health: 'healthy', failed: 0, failures: [], ratioToFloor: 0.987 },
      { ...ROW, subject: 'redlock@4.2.0', health: 'one-killed', failed: 1, failures: ['stalled'], stalledMs: 15_000 },
      {
        ...ROW,
        shape: 'contended16',
        health: 'healthy',
        failed: 0,
        failures: [],
        contention: { jain: 0.97, starved: 0, starvedMost: 2 },
      },
    ],
    comparisons: [],
    delays: [],
    thresholds: [{ what: 'fast', wanted: '≥ 1', found: '0.900', met: false }],
    missing: ['redlock-universal@0.8.5'],
  };
  expect(drawBench(result)).toMatch(/^<svg .*one killed<.*&gt; 15 s<.*<\/svg>$/s);
  expect(formatBench(result)).toMatchInlineSnapshot(`
    "5 × redis-server 7, ioredis 5.11.1, Node v20, 2 × A CPU
    ┌───────────────┬───────┬─────────────┬────────────┬───────┬────────┬────────────┬────────┬─────────┬─────────────┬──────────────────┐
    │ subject       │ nodes │ shape       │ health     │ ops/s │ p50 µs │     p99 µs │ CPU µs │ × floor │ lockstep is │ failed           │
    ├───────────────┼───────┼─────────────┼────────────┼───────┼────────┼────────────┼────────┼─────────┼─────────────┼──────────────────┤
    │ lockstep      │     5 │ serial      │ healthy    │     4 │ 250000 │     260000 │     99 │    0.99 │             │                  │
    │ redlock@4.2.0 │     5 │ serial      │ one-killed │       │        │ > 15000 ms │        │         │             │ 1 of 10: stalled │
    │ lockstep      │     5 │ contended16 │ healthy    │     4 │ 250000 │     260000 │     99 │         │             │                  │
    └───────────────┴───────┴─────────────┴────────────┴───────┴────────┴────────────┴────────┴─────────┴─────────────┴──────────────────┘
    medians of 7 rounds (interrupted), in which all subjects took turns; p50 and p99 of the
    acquisition alone (of the extension in extend), failed ones too; ratios to the floor of the same round, with
    their 95 % interval; floor: SET NX PX on all nodes, all replies, then EVALSHA on all; floor on a client: the
    same by its own sendCommand or call, the replies of a quorum, with a time-out of 50 ms armed for each round

    ┌──────────────────────────┬───────┬─────────────┬──────────────┬─────────────┬─────────┬──────────┐
    │ 16 workers, one resource │ nodes │ hand-offs/s │ Jain's index │ wait p99 ms │ starved │ at worst │
    ├──────────────────────────┼───────┼─────────────┼──────────────┼─────────────┼─────────┼──────────┤
    │ lockstep                 │     5 │           4 │         0.97 │         260 │       0 │        2 │
    └──────────────────────────┴───────┴─────────────┴──────────────┴─────────────┴─────────┴──────────┘
    starved: workers that got nothing in a round of 0.7 s

    ┌───┬───────────┬────────┬───────┐
    │   │ threshold │ wanted │ found │
    ├───┼───────────┼────────┼───────┤
    │ ✗ │ fast      │ ≥ 1    │ 0.900 │
    └───┴───────────┴────────┴───────┘

    not installed here, so not measured: redlock-universal@0.8.5"
  `);
});

test('a document has a section for each number of nodes, who contended, bad health, and what had to be reached', () => {
  const healthy = { ...ROW, health: 'healthy', failed: 0, failures: [], opsPerSecond: 12_345.6 } as const;
  const ratio = { median: 2, low: 1.5, high: 2.5 };
  const text = benchDocument(
    {
      schema: 'lockstep.bench/1',
      machine: { node: 'v20', platform: 'linux x64', cpu: 'CPU', cpus: 2, redis: '5 × redis-server 7', ioredis: '5' },
      rounds: 21,
      interrupted: false,
      rows: [
        { ...healthy, nodes: 1 },
        healthy,
        { ...healthy, subject: '@sesamecare-oss/redlock@1.4.0' },
        { ...healthy, shape: 'contended16', contention: { jain: 0.9, starved: 0, starvedMost: 3 } },
        ROW,
        { ...ROW, subject: 'redlock@4.2.0', stalledMs: 15_000 },
      ],
      comparisons: [
        {
          nodes: 5,
          shape: 'serial',
          health: 'healthy',
          subject: 'lockstep',
          against: '@sesamecare-oss/redlock@1.4.0',
          ops: ratio,
          cpu: ratio,
        },
      ],
      delays: [],
      thresholds: [
        { what: 'fast', wanted: '≥ 1', found: '0.900', met: false },
        { what: 'one-killed: p50', wanted: '≤ 1 ms', found: '0.5 ms', met: true },
      ],
      missing: [],
    },
    0.125,
  );
  expect(text).toMatchInlineSnapshot(`
    "5 × redis-server 7, ioredis 5, Node v20, 2 × CPU; 21 rounds; load average 0.13 before.

    |  | wanted | found |  |
    | --- | --- | --- | --- |
    | fast | ≥ 1 | 0.900 | ✗ |

    ### Five nodes, healthy

    |  | shape | ops/s | p50 µs | p99 µs | CPU µs | lockstep does × times as much |
    | --- | --- | --- | --- | --- | --- | --- |
    | lockstep | serial | 12 346 | 250 000 | 260 000 | 99 |  |
    | @sesamecare-oss/redlock 1.4.0 | serial | 12 346 | 250 000 | 260 000 | 99 | 2.00 (1.50–2.50) |
    | lockstep | contended16 | 12 346 | 250 000 | 260 000 | 99 |  |

    16 workers that want one resource (hold 1 ms, think 20 ms, retry after 10 ± 5 ms); starved are those that got nothing in a round:

    |  | hand-offs/s | Jain's index | wait p99 ms | starved, median and worst |
    | --- | --- | --- | --- | --- |
    | lockstep | 12 346 | 0.90 | 260 | 0, 3 |

    ### One node, healthy

    |  | shape | ops/s | p50 µs | p99 µs | CPU µs | lockstep does × times as much |
    | --- | --- | --- | --- | --- | --- | --- |
    | lockstep | serial | 12 346 | 250 000 | 260 000 | 99 |  |

    ### With nodes that are dead, hung or slow

    Acquisition p50 / p99 in ms, one lock after the other, three attempts at most; slow is 50 ms late. A subject that takes longer than
    15 s for one operation is not measured again, one that takes longer than 2 s is measured in three rounds.

    |  | three stopped |
    | --- | --- |
    | lockstep | 250 / 260, 10 of 10 fail: ERR_LOCK_QUORUM_UNREACHABLE |
    | redlock 4.2.0 | stalls > 15 s |

    The same lock on five healthy nodes took turns with it:

    |  | wanted | found |  |
    | --- | --- | --- | --- |
    | one-killed: p50 | ≤ 1 ms | 0.5 ms | ✓ |"
  `);
});

test('a document of what fools locks has a library in each column', () => {
  const row = { situation: 'asleep', subject: 'lockstep', verdict: 'safe', seen: 'failed' } as const;
  const text = safetyDocument({
    schema: 'lockstep.safety/1',
    redis: '5 × redis-server 7',
    rows: [
      row,
      { ...row, subject: 'redlock@4.2.0', verdict: 'unsafe', seen: 'acquired' },
      { ...row, situation: 'late', subject: 'redlock@4.2.0', verdict: 'untold' },
    ],
  });
  expect(text).toMatchInlineSnapshot(`
    "5 × redis-server 7.

    | situation | lockstep | redlock 4.2.0 |
    | --- | --- | --- |
    | asleep | ✓ failed | ✗ acquired |
    | late |  | · |"
  `);
});
