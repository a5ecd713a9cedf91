import { describe, expect, test } from 'vitest';
import { CLIENT_LIBRARIES } from '../client-libraries.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type BenchProgress, runBench, runSafety } from './index.js';

describe.skipIf(!canRunOnRedis('the benchmark', 'processes'))('the benchmark on real nodes', () => {
  test('gives a row for each subject, shape and health, side by side with peers and floors', async () => {
    const progress: BenchProgress[] = [];
    const result = await runBench({
      rounds: 2,
      effort: 0.05,
      healths: ['healthy', 'one-slow', 'three-stopped'],
      peers: false,
      onProgress: (step) => progress.push(step),
    });
    expect(result).toMatchObject({ schema: 'lockstep.bench/1', rounds: 2, interrupted: false });
    const floors = ['floor', 'floor-at-quorum', 'floor-auto-pipelined'];
    expect(result.rows.map(({ subject, shape, health }) => `${subject} ${shape} ${health}`)).toEqual([
      ...['lockstep', ...floors].map((name) => `${name} serial healthy`),
      ...['lockstep', ...floors].map((name) => `${name} concurrent64 healthy`),
      'lockstep contended16 healthy',
      ...['lockstep', ...floors].map((name) => `${name} extend healthy`),
      'lockstep serial one-slow',
      'lockstep serial three-stopped',
    ]);
    for (const row of result.rows) {
      for (const figure of [row.opsPerSecond, row.p50Us, row.p99Us, row.cpuUsPerOp]) expect(figure).toBeGreaterThan(0);
      if (row.health !== 'three-stopped') expect(row).toMatchObject({ failed: 0, failures: [], stalledMs: null });
    }
    expect(result.rows.at(-1)?.failures).toEqual(['ERR_LOCK_QUORUM_UNREACHABLE']);
    expect(result.delays.map(({ health }) => health)).toEqual(['one-slow', 'three-stopped']);
    expect(progress.at(-1)?.done).toBe(progress.at(-1)?.total);
  });

  test('every peer that is installed locks, extends and contends', async () => {
    const result = await runBench({ nodes: [3], rounds: 1, effort: 0.05, healths: ['healthy'] });
    expect(result.missing).toEqual([]);
    for (const { subject, operations, failed } of result.rows) {
      expect({ subject, failed, some: operations > 0 }).toEqual({ subject, failed: 0, some: true });
    }
    expect(new Set(result.rows.map(({ subject }) => subject)).size).toBe(9);
  });

  test('the lock on a client is measured beside the floor on that client', async () => {
    const result = await runBench({
      nodes: [3],
      shapes: ['serial'],
      rounds: 1,
      effort: 0.05,
      healths: ['healthy'],
      peers: false,
      clients: CLIENT_LIBRARIES,
    });
    expect(result.missing).toEqual([]);
    const subjects = CLIENT_LIBRARIES.flatMap((client) => [`lockstep on ${client}`, `floor on ${client}`]);
    const rows = result.rows.slice(-subjects.length);
    expect(rows.map(({ subject, failed }) => [subject, failed])).toEqual(subjects.map((subject) => [subject, 0]));
    for (const { operations, ratioToFloor } of rows) {
      expect(operations).toBeGreaterThan(0);
      expect(ratioToFloor).toBeGreaterThan(0);
    }
    const pairs = result.comparisons.filter(({ subject }) => subject !== 'lockstep');
    expect(pairs.map(({ subject, against }) => [subject, against])).toEqual(
      CLIENT_LIBRARIES.map((client) => [`lockstep on ${client}`, `floor on ${client}`]),
    );
  });

  test('stops cleanly when its signal aborts, with what it has', async () => {
    const abort = new AbortController();
    const result = await runBench({
      nodes: [1],
      rounds: 1000,
      effort: 0.05,
      shapes: ['serial'],
      healths: ['healthy'],
      peers: false,
      signal: abort.signal,
      onProgress: ({ done }) => done === 8 && abort.abort(),
    });
    expect(result.interrupted).toBe(true);
    expect(result.rows.length).toBe(4);
  });

  test('the lock is safe in every situation that is acted out', async () => {
    const { rows } = await runSafety({ peers: false });
    expect(rows.length).toBe(9);
    expect(rows.filter(({ verdict }) => verdict !== 'safe')).toEqual([]);
  });
});
