import { SAFETY_MARKS, type SafetyResult } from './safety.js';
import type { BenchResult, BenchRow, Health, SubjectName, Threshold } from './types.js';

/** The result as sections of a Markdown document; `loadBefore` is what the machine did besides, in runnable processes. */
export function benchDocument(result: BenchResult, loadBefore: number): string {
  const { machine, rounds, thresholds } = result;
  const counts = [...new Set(result.rows.filter(isHealthy).map(({ nodes }) => nodes))].toSorted((a, b) => b - a);
  const ofHealthy = thresholds.filter((it) => !isOfHealth(it));
  const ofHealth = thresholds.filter(isOfHealth);
  return [
    `${machine.redis}, ioredis ${machine.ioredis}, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}; ${rounds} rounds; load average ${loadBefore.toFixed(2)} before.`,
    ...(ofHealthy.length === 0 ? [] : [thresholdTable(ofHealthy)]),
    ...counts.flatMap((nodes) => [
      `### ${nodeWords(nodes)}, healthy`,
      ratesOf(result, nodes),
      ...contentionOf(result, nodes),
    ]),
    ...badHealth(result),
    ...(ofHealth.length === 0
      ? []
      : ['The same lock on five healthy nodes took turns with it:', thresholdTable(ofHealth)]),
  ].join('\n\n');
}

/** The result as a table in Markdown: a library in each column. */
export function safetyDocument({ redis, rows }: SafetyResult): string {
  const subjects = [...new Set(rows.map(({ subject }) => subject))];
  const situations = [...new Set(rows.map(({ situation }) => situation))];
  const lines = situations.map((situation) => [
    situation,
    ...subjects.map((subject) => {
      const row = rows.find((it) => it.situation === situation && it.subject === subject);
      if (row === undefined) return '';
      return row.verdict === 'untold' ? SAFETY_MARKS.untold : `${SAFETY_MARKS[row.verdict]} ${row.seen}`;
    }),
  ]);
  return `${redis}.\n\n${table(['situation', ...subjects.map(subjectWords)], lines)}`;
}

function ratesOf({ rows, comparisons }: BenchResult, nodes: number): string {
  const lines = rows
    .filter((row) => isHealthy(row) && row.nodes === nodes)
    .map((row) => {
      const ratio = comparisons.find(
        (it) => isHealthy(it) && it.nodes === nodes && it.shape === row.shape && it.against === row.subject,
      )?.ops;
      const times =
        ratio === undefined ? '' : `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`;
      const figures = [row.opsPerSecond, row.p50Us, row.p99Us, row.cpuUsPerOp].map(grouped);
      return [subjectWords(row.subject), row.shape, ...figures, times];
    });
  return table(['', 'shape', 'ops/s', 'p50 µs', 'p99 µs', 'CPU µs', 'lockstep does × times as much'], lines);
}

function contentionOf({ rows }: BenchResult, nodes: number): string[] {
  const lines = rows.flatMap(({ contention, subject, opsPerSecond, p99Us, ...row }) => {
    if (contention === null || row.nodes !== nodes) return [];
    const { jain, starved, starvedMost } = contention;
    return [
      [
        subjectWords(subject),
        grouped(opsPerSecond),
        jain.toFixed(2),
        grouped(p99Us / 1000),
        `${starved}, ${starvedMost}`,
      ],
    ];
  });
  if (lines.length === 0) return [];
  return [
    '16 workers that want one resource (hold 1 ms, think 20 ms, retry after 10 ± 5 ms); starved are those that got nothing in a round:',
    table(['', 'hand-offs/s', "Jain's index", 'wait p99 ms', 'starved, median and worst'], lines),
  ];
}

function badHealth({ rows }: BenchResult): string[] {
  const bad = rows.filter((row) => !isHealthy(row));
  if (bad.length === 0) return [];
  const healths = [...new Set(bad.map(({ health }) => health))];
  const subjects = [...new Set(bad.map(({ subject }) => subject))];
  const lines = subjects.map((subject) => [
    subjectWords(subject),
    ...healths.map((health) => acquisitionOf(bad.find((row) => row.health === health && row.subject === subject))),
  ]);
  return [
    '### With nodes that are dead, hung or slow',
    'Acquisition p50 / p99 in ms, one lock after the other, three attempts at most; slow is 50 ms late. A subject that takes longer than\n15 s for one operation is not measured again, one that takes longer than 2 s is measured in three rounds.',
    table(['', ...healths.map((health) => health.replace('-', ' '))], lines),
  ];
}

function acquisitionOf(row: BenchRow | undefined): string {
  if (row === undefined) return '';
  if (row.stalledMs !== null) return `stalls > ${row.stalledMs / 1000} s`;
  const times = `${milliseconds(row.p50Us)} / ${milliseconds(row.p99Us)}`;
  return row.failed === 0 ? times : `${times}, ${row.failed} of ${row.operations} fail: ${row.failures.join(', ')}`;
}

function thresholdTable(thresholds: readonly Threshold[]): string {
  return table(
    ['', 'wanted', 'found', ''],
    thresholds.map(({ what, wanted, found, met }) => [what, wanted, found, met ? '✓' : '✗']),
  );
}

function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function isHealthy({ health }: { readonly health: Health }): boolean {
  return health === 'healthy';
}

function isOfHealth({ what }: Threshold): boolean {
  return /-(?:killed|stopped|slow): /.test(what);
}

function nodeWords(nodes: number): string {
  return nodes === 1 ? 'One node' : nodes === 3 ? 'Three nodes' : nodes === 5 ? 'Five nodes' : `${nodes} nodes`;
}

function subjectWords(subject: SubjectName): string {
  return subject.replace(/(?<=.)@/, ' ');
}

function milliseconds(us: number): string {
  return us < 10_000 ? (us / 1000).toFixed(2) : grouped(us / 1000);
}

function grouped(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ' ');
}
