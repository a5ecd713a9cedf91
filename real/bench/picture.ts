import type { BenchResult, BenchRow, Comparison, Health, Shape } from './types.js';

const WIDTH = 860;
const LEFT = 250;
const RIGHT = 110;
const ROW = 20;
const HEAD = 46;
/** Told apart by form as well as by colour. */
const STYLE =
  'text{font:12px system-ui,sans-serif;fill:#222}.h{font-weight:600;font-size:13px}.s{fill:#666}' +
  '.g{stroke:#ddd}.one{stroke:#888;stroke-dasharray:4 3}.bar{stroke:#2457a6;stroke-width:2}.dot{fill:#2457a6}' +
  '.own{fill:#2457a6}.other{fill:#fff;stroke:#9a3b00;stroke-width:1.5}.tail{stroke:#9a3b00;stroke-width:1.5}.tail.own{stroke:#2457a6}' +
  '@media(prefers-color-scheme:dark){svg{background:#111}text{fill:#eee}.s{fill:#aaa}.g{stroke:#333}.other{fill:#111}}';

const TITLES: Readonly<Record<Shape, string>> = {
  serial: 'one lock after the other',
  concurrent64: '64 locks at once',
  contended16: '16 workers, one resource',
  extend: 'extensions',
};

/** Something drawn, and how high it is. */
interface Panel {
  readonly height: number;
  readonly marks: readonly string[];
}

/** The result as one SVG image: how much faster the lock is than each other subject, and what bad nodes cost each. */
export function drawBench(result: BenchResult): string {
  const most = Math.max(0, ...result.rows.map(({ nodes }) => nodes));
  const shapes = [...new Set(result.comparisons.filter(isHealthy).map(({ shape }) => shape))];
  const healths = [...new Set(result.rows.map(({ health }) => health))];
  const panels = [
    ...shapes.map((shape) => ratioPanel(shape, most, result.comparisons)),
    ...healths.filter((health) => health !== 'healthy').map((health) => healthPanel(health, result.rows)),
  ];
  let y = 40;
  const groups = panels.map(({ height, marks }) => {
    const group = `<g transform="translate(0 ${y})">${marks.join('')}</g>`;
    y += height + 16;
    return group;
  });
  const title = `Lockstep beside other locks, ${most} nodes, medians of ${result.rounds} rounds`;
  const { machine } = result;
  const caption = `${machine.redis}, ioredis ${machine.ioredis}, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 24}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}</style>`,
    text(12, 22, title, 'h'),
    ...groups,
    text(12, y + 10, caption, 's'),
    '</svg>',
  ].join('\n');
}

function isHealthy({ health }: Comparison): boolean {
  return health === 'healthy';
}

function ratioPanel(shape: Shape, nodes: number, comparisons: readonly Comparison[]): Panel {
  const rows = comparisons.filter((it) => isHealthy(it) && it.shape === shape && it.nodes === nodes);
  const most = Math.max(2, ...rows.map(({ ops }) => ops.high));
  const least = Math.min(0.5, ...rows.map(({ ops }) => ops.low));
  const x = logScale(least, most);
  const ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20].filter((tick) => tick >= least && tick <= most);
  const marks = [
    text(12, 16, `${TITLES[shape]}: lockstep does × times what … does (95 % interval)`, 'h'),
    ...grid(ticks, x, rows.length, (tick) => `${tick}×`),
    line(x(1), HEAD - 6, x(1), HEAD + rows.length * ROW, 'one'),
  ];
  rows.forEach(({ against, ops }, index) => {
    const y = HEAD + index * ROW + ROW / 2;
    marks.push(
      text(LEFT - 12, y + 4, against, '', 'end'),
      line(x(ops.low), y, x(ops.high), y, 'bar'),
      `<circle cx="${round(x(ops.median))}" cy="${y}" r="4" class="dot"/>`,
      text(WIDTH - RIGHT + 12, y + 4, `${ops.median.toFixed(2)} ×`),
    );
  });
  return { height: HEAD + rows.length * ROW, marks };
}

function healthPanel(health: Health, all: readonly BenchRow[]): Panel {
  const rows = all.filter((row) => row.health === health);
  const x = logScale(50, 20_000_000);
  const ticks = [100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
  const what = rows.some(({ failed, operations }) => failed === operations && operations > 0)
    ? 'time to fail'
    : 'acquisition';
  const marks = [
    text(12, 16, `${health.replace('-', ' ')} of five: ${what}, p50 (mark) to p99 (line)`, 'h'),
    ...grid(ticks, x, rows.length, (tick) => duration(tick)),
  ];
  rows.forEach((row, index) => {
    const y = HEAD + index * ROW + ROW / 2;
    const own = row.subject === 'lockstep' ? 'own' : 'other';
    const stalledUs = row.stalledMs === null ? null : row.stalledMs * 1000;
    const [from, to] = stalledUs === null ? [row.p50Us, row.p99Us] : [stalledUs, stalledUs];
    marks.push(
      text(LEFT - 12, y + 4, row.subject, '', 'end'),
      line(x(from), y, x(to), y, `tail ${own}`),
      row.subject === 'lockstep'
        ? `<circle cx="${round(x(from))}" cy="${y}" r="4" class="own"/>`
        : `<rect x="${round(x(from) - 4)}" y="${y - 4}" width="8" height="8" class="other"/>`,
      text(WIDTH - RIGHT + 12, y + 4, stalledUs === null ? duration(row.p50Us) : `stalls > ${duration(stalledUs)}`),
    );
  });
  return { height: HEAD + rows.length * ROW, marks };
}

function grid(
  ticks: readonly number[],
  x: (value: number) => number,
  rows: number,
  label: (tick: number) => string,
): string[] {
  return ticks.flatMap((tick) => [
    line(x(tick), HEAD - 6, x(tick), HEAD + rows * ROW, 'g'),
    text(x(tick), HEAD - 12, label(tick), 's', 'middle'),
  ]);
}

function logScale(least: number, most: number): (value: number) => number {
  const span = Math.log(most / least);
  return (value) => LEFT + (Math.log(Math.max(value, least) / least) / span) * (WIDTH - LEFT - RIGHT);
}

function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${Number((us / 1000).toPrecision(2))} ms`;
  return `${Number((us / 1_000_000).toPrecision(2))} s`;
}

function line(x1: number, y1: number, x2: number, y2: number, name: string): string {
  return `<line x1="${round(x1)}" y1="${y1}" x2="${round(x2)}" y2="${y2}" class="${name}"/>`;
}

function text(x: number, y: number, words: string, name = '', anchor = 'start'): string {
  const named = name === '' ? '' : ` class="${name}"`;
  return `<text x="${round(x)}" y="${y}" text-anchor="${anchor}"${named}>${escaped(words)}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
