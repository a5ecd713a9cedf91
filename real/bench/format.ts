import Table from 'cli-table3';
import { SAFETY_MARKS, type SafetyResult } from './safety.js';
import type { BenchResult, BenchRow } from './types.js';

/** The result as tables for a terminal, without colours. */
export function formatBench(result: BenchResult): string {
  const { machine } = result;
  return [
    `${machine.redis}, ioredis ${machine.ioredis}, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}`,
    rowTable(result),
    `medians of ${result.rounds} rounds${result.interrupted ? ' (interrupted)' : ''}, in which all subjects took turns; p50 and p99 of the`,
    'acquisition alone (of the extension in extend), failed ones too; ratios to the floor of the same round, with',
    'their 95 % interval; floor: SET NX PX on all nodes, all replies, then EVALSHA on all; floor on a client: the',
    'same by its own sendCommand or call, the replies of a quorum, with a time-out of 50 ms armed for each round',
    ...contentionLines(result),
    ...thresholdLines(result),
    ...(result.missing.length === 0 ? [] : ['', `not installed here, so not measured: ${result.missing.join(', ')}`]),
  ].join('\n');
}

function rowTable({ rows, comparisons }: BenchResult): string {
  const table = plainTable(
    ['subject', 'nodes', 'shape', 'health', 'ops/s', 'p50 µs', 'p99 µs', 'CPU µs', '× floor', 'lockstep is', 'failed'],
    ['left', 'right', 'left', 'left', 'right', 'right', 'right', 'right', 'right', 'left', 'left'],
  );
  for (const row of rows) {
    const ratio = comparisons.find(
      (it) =>
        it.nodes === row.nodes && it.shape === row.shape && it.health === row.health && it.against === row.subject,
    )?.ops;
    table.push([
      row.subject,
      row.nodes,
      row.shape,
      row.health,
      row.stalledMs === null ? row.opsPerSecond : '',
      ...(row.stalledMs === null ? [row.p50Us, row.p99Us, row.cpuUsPerOp] : ['', `> ${row.stalledMs} ms`, '']),
      row.ratioToFloor?.toFixed(2) ?? '',
      ratio === undefined ? '' : `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`,
      failuresOf(row),
    ]);
  }
  return table.toString();
}

function failuresOf({ failed, operations, failures }: BenchRow): string {
  return failed === 0 ? '' : `${failed} of ${operations}: ${failures.join(', ')}`;
}

function contentionLines({ rows }: BenchResult): string[] {
  const contended = rows.filter(({ contention }) => contention !== null);
  if (contended.length === 0) return [];
  const table = plainTable(
    ['16 workers, one resource', 'nodes', 'hand-offs/s', "Jain's index", 'wait p99 ms', 'starved', 'at worst'],
    ['left', 'right', 'right', 'right', 'right', 'right', 'right'],
  );
  for (const { subject, nodes, opsPerSecond, p99Us, contention } of contended) {
    if (contention === null) continue;
    const { jain, starved, starvedMost } = contention;
    table.push([subject, nodes, opsPerSecond, jain.toFixed(2), Math.round(p99Us / 1000), starved, starvedMost]);
  }
  return ['', table.toString(), 'starved: workers that got nothing in a round of 0.7 s'];
}

function thresholdLines({ thresholds }: BenchResult): string[] {
  if (thresholds.length === 0) return [];
  const table = plainTable(['', 'threshold', 'wanted', 'found'], ['left', 'left', 'left', 'left']);
  for (const { what, wanted, found, met } of thresholds) table.push([met ? '✓' : '✗', what, wanted, found]);
  return ['', table.toString()];
}

/** The result as a table for a terminal, without colours. */
export function formatSafety({ redis, rows }: SafetyResult): string {
  const table = plainTable(['situation', 'library', '', 'seen'], ['left', 'left', 'left', 'left']);
  let last = '';
  for (const { situation, subject, verdict, seen } of rows) {
    table.push([situation === last ? '' : situation, subject, SAFETY_MARKS[verdict], seen]);
    last = situation;
  }
  return [redis, table.toString(), '✓ safe   ✗ unsafe   · does not say until when it holds'].join('\n');
}

type Align = 'left' | 'right';

function plainTable(head: string[], colAligns: Align[]): InstanceType<typeof Table> {
  return new Table({ head, colAligns, style: { head: [], border: [], compact: true } });
}
