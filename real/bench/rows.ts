import type { CellResult } from './cell.js';
import type { Round, Series } from './measure.js';
import { jain, median, medianWithInterval } from './statistics.js';
import type { BenchRow, Comparison, Contention, Delay, Ratio, SubjectName } from './types.js';

/** The lines of a cell, in the order in which its subjects were made. */
export function rowsOf(cell: CellResult): BenchRow[] {
  return [...cell.series]
    .filter(([, { operations, stalledMs }]) => operations > 0 || stalledMs !== null)
    .map(([subject, series]) => ({
      subject,
      nodes: cell.nodes,
      shape: cell.shape,
      health: cell.health,
      opsPerSecond: Math.round(median(series.rounds.map((round) => round.opsPerSecond))),
      p50Us: microseconds(series, 50),
      p99Us: microseconds(series, 99),
      cpuUsPerOp: Math.round(median(series.rounds.map((round) => round.cpuUsPerOp))),
      ratioToFloor: ratioToFloor(cell, subject, series),
      operations: series.operations,
      failed: series.failed,
      failures: [...series.failures].sort(),
      stalledMs: series.stalledMs,
      contention: cell.shape === 'contended16' ? contentionOf(series.rounds) : null,
    }));
}

/** The floor of a client is the bare commands on the same client. */
function ratioToFloor({ series }: CellResult, subject: SubjectName, own: Series): number | null {
  const [, client] = subject.split(' on ');
  const floor = series.get(client === undefined ? 'floor' : (`floor on ${client}` as SubjectName));
  return floor === undefined ? null : ratioOf(own, floor, (round) => round.opsPerSecond).median;
}

/** The lock against each other subject of the cell, and the lock on a client against the floor on that. */
export function comparisonsOf(cell: CellResult): Comparison[] {
  return [...cell.series].flatMap(([against, series]) => {
    const subject = (
      against.startsWith('floor on ') ? against.replace('floor', 'lockstep') : 'lockstep'
    ) as SubjectName;
    const own = cell.series.get(subject);
    if (own === undefined || against === subject || own.rounds.length === 0) return [];
    if (series.rounds.length === 0 || series.stalledMs !== null) return [];
    return [
      {
        nodes: cell.nodes,
        shape: cell.shape,
        health: cell.health,
        subject,
        against,
        ops: ratioOf(own, series, (round) => round.opsPerSecond),
        cpu: ratioOf(own, series, (round) => round.cpuUsPerOp),
      },
    ];
  });
}

/** What bad health costs the lock; nothing for a cell of good health. */
export function delayOf(cell: CellResult): Delay[] {
  const own = cell.series.get('lockstep');
  if (own === undefined || cell.healthy === null || own.operations === 0) return [];
  return [
    {
      nodes: cell.nodes,
      health: cell.health,
      p50Us: microseconds(own, 50),
      healthyP50Us: microseconds(cell.healthy, 50),
      p99Us: microseconds(own, 99),
      healthyP99Us: microseconds(cell.healthy, 99),
    },
  ];
}

/** Of the rounds that both were measured in. */
function ratioOf(own: Series, other: Series, figure: (round: Round) => number): Ratio {
  const ratios: number[] = [];
  for (const [index, round] of own.rounds.entries()) {
    const against = other.rounds[index];
    if (against !== undefined) ratios.push(figure(round) / figure(against));
  }
  const { median, low, high } = medianWithInterval(ratios);
  return { median: thousandths(median), low: thousandths(low), high: thousandths(high) };
}

function contentionOf(rounds: readonly Round[]): Contention {
  const starved = rounds.map(({ shares }) => shares.filter((share) => share === 0).length);
  return {
    jain: thousandths(median(rounds.map(({ shares }) => jain(shares)))),
    starved: median(starved),
    starvedMost: Math.max(0, ...starved),
  };
}

function microseconds(series: Series, percentile: number): number {
  return series.latencies.count === 0 ? 0 : Math.round(series.latencies.percentile(percentile) / 1000);
}

function thousandths(value: number): number {
  return Math.round(value * 1000) / 1000;
}
