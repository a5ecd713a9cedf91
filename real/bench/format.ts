import Table from 'cli-table3';
import type { BenchResult } from './types.js';

/** The result as a table for a terminal, without colours. */
export function formatBench(result: BenchResult): string {
  const { machine } = result;
  const table = new Table({
    head: ['subject', 'nodes', 'shape', 'health', 'ops/s', 'p50 µs', 'p99 µs', 'CPU µs/op', '× floor'],
    colAligns: ['left', 'right', 'left', 'left', 'right', 'right', 'right', 'right', 'right'],
    style: { head: [], border: [], compact: true },
  });
  for (const row of result.rows) {
    table.push([
      row.subject,
      row.nodes,
      row.shape,
      row.health,
      row.opsPerSecond,
      row.p50Us,
      row.p99Us,
      row.cpuUsPerOp,
      row.ratioToFloor.toFixed(2),
    ]);
  }
  return [
    `acquire + release on ${machine.redis}, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}`,
    table.toString(),
    `medians of ${result.rounds} rounds${result.interrupted ? ' (interrupted)' : ''}; floor: SET NX PX on all nodes, all ` +
      'replies, then EVALSHA on all; rows of bad health against the healthy floor',
  ].join('\n');
}
