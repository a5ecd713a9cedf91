import { describe, expect, test } from 'vitest';
import { canRunOnRedis } from '../provisioner/for-tests.js';
import { type BenchProgress, type BenchResult, formatBench, runBench } from './index.js';
import { quantile } from './measure.js';

test('quantiles interpolate between the values', () => {
  expect([quantile([3, 1, 2], 0.5), quantile([1, 2], 0.5), quantile([5], 0.99), quantile([], 0.5)]).toEqual([
    2, 1.5, 5, 0,
  ]);
});

test('a result prints as a table of at most 110 columns', () => {
  const result: BenchResult = {
    schema: 'lockstep.bench/1',
    machine: { node: 'v20.19.0', platform: 'linux x64', cpu: 'A CPU', cpus: 2, redis: '5 × redis-server 7.0.15' },
    rounds: 7,
    interrupted: true,
    rows: [
      {
        subject: 'lockstep',
        nodes: 5,
        shape: 'concurrent64',
        health: 'one-stopped',
        opsPerSecond: 12345,
        p50Us: 1234,
        p99Us: 5678,
        cpuUsPerOp: 99,
        ratioToFloor: 0.987,
      },
    ],
  };
  expect(formatBench(result)).toMatchInlineSnapshot(`
    "acquire + release on 5 × redis-server 7.0.15, Node v20.19.0, 2 × A CPU
    ┌──────────┬───────┬──────────────┬─────────────┬───────┬────────┬────────┬───────────┬─────────┐
    │ subject  │ nodes │ shape        │ health      │ ops/s │ p50 µs │ p99 µs │ CPU µs/op │ × floor │
    ├──────────┼───────┼──────────────┼─────────────┼───────┼────────┼────────┼───────────┼─────────┤
    │ lockstep │     5 │ concurrent64 │ one-stopped │ 12345 │   1234 │   5678 │        99 │    0.99 │
    └──────────┴───────┴──────────────┴─────────────┴───────┴────────┴────────┴───────────┴─────────┘
    medians of 7 rounds (interrupted); floor: SET NX PX on all nodes, all replies, then EVALSHA on all; rows of bad health against the healthy floor"
  `);
});

describe.skipIf(!canRunOnRedis('the benchmark', 'processes'))('the benchmark on real nodes', () => {
  test('gives a row for each subject, shape and health, and the ratio to the floor of the same run', async () => {
    const progress: BenchProgress[] = [];
    const result = await runBench({
      nodes: 3,
      rounds: 2,
      operations: { serial: 20, concurrent64: 100 },
      onProgress: (step) => progress.push(step),
    });
    expect(result).toMatchObject({ schema: 'lockstep.bench/1', rounds: 2, interrupted: false });
    expect(result.rows.map(({ subject, shape, health }) => `${subject} ${shape} ${health}`)).toEqual([
      'lockstep serial healthy',
      'floor serial healthy',
      'lockstep concurrent64 healthy',
      'floor concurrent64 healthy',
      'lockstep serial one-killed',
      'lockstep concurrent64 one-killed',
      'lockstep serial one-stopped',
      'lockstep concurrent64 one-stopped',
    ]);
    for (const row of result.rows) {
      expect(row.nodes).toBe(3);
      for (const figure of [row.opsPerSecond, row.p50Us, row.p99Us, row.cpuUsPerOp, row.ratioToFloor]) {
        expect(figure).toBeGreaterThan(0);
      }
    }
    expect(progress.at(-1)).toMatchObject({ done: 16, total: 16 });
  });

  test('stops cleanly when its signal aborts, with what it has', async () => {
    const abort = new AbortController();
    const result = await runBench({
      nodes: 1,
      rounds: 1000,
      shapes: ['serial'],
      healths: ['healthy'],
      operations: { serial: 10 },
      signal: abort.signal,
      onProgress: ({ done }) => done === 4 && abort.abort(),
    });
    expect(result.interrupted).toBe(true);
    expect(result.rows.map(({ subject }) => subject)).toEqual(['lockstep', 'floor']);
  });
});
