import { escaped } from '../../text/escaped.js';
import type { BenchResult, BenchRow, Comparison, Health, Shape } from './types.js';

const COLUMN = 510;
/** Where the marks of a panel begin and end; labels are before them, figures behind. */
const [LEFT, END] = [216, 424];
const ROW = 20;
const HEAD = 46;
const GAP = 18;
/** Told apart by form as well as by colour. */
const STYLE =
  'text{font:12px system-ui,sans-serif;fill:#222}.h{font-weight:600;font-size:14px}.p{font-weight:600}.s{fill:#666}' +
  '.g{stroke:#ddd}.one{stroke:#888;stroke-dasharray:4 3}.line{stroke-width:2}.line.own{stroke:#2457a6}' +
  '.line.other{stroke:#9a3b00}.line.floor{stroke:#777}.mark{stroke-width:1.5}.mark.own{fill:#2457a6;stroke:#2457a6}' +
  '.mark.other{fill:#fff;stroke:#9a3b00}.mark.floor{fill:#fff;stroke:#777}' +
  '@media(prefers-color-scheme:dark){svg{background:#111}text{fill:#eee}.s{fill:#aaa}.g{stroke:#333}' +
  '.line.own{stroke:#7aa7ee}.mark.own{fill:#7aa7ee;stroke:#7aa7ee}.line.other{stroke:#e08a4f}' +
  '.mark.other{fill:#111;stroke:#e08a4f}.mark.floor{fill:#111}}';

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

type Scale = (value: number) => number;

/** One line of a panel. */
interface Entry {
  readonly name: string;
  readonly from: number;
  readonly mark: number;
  readonly to: number;
  readonly figure: string;
}

/** The result as one SVG image: how much faster the lock is than each other subject, and what bad nodes cost each. */
export function drawBench(result: BenchResult): string {
  const { machine, comparisons, rows } = result;
  const most = Math.max(0, ...rows.map(({ nodes }) => nodes));
  const compared = comparisons.filter(({ health, nodes }) => health === 'healthy' && nodes === most);
  const healths = [...new Set(rows.map(({ health }) => health))].filter((health) => health !== 'healthy');
  const title = `Lockstep beside other locks, ${most} nodes, medians of ${result.rounds} rounds`;
  const parts: string[] = [];
  let y = 12;
  const add = (heading: string, note: string, panels: readonly Panel[]) => {
    if (panels.length === 0) return;
    parts.push(text(12, y + 22, heading, 'h'), text(12, y + 40, note, 's'));
    y += 52;
    for (let i = 0; i < panels.length; i += 2) {
      const pair = panels.slice(i, i + 2);
      pair.forEach(({ marks }, column) => {
        parts.push(`<g transform="translate(${column * COLUMN} ${y})">${marks.join('')}</g>`);
      });
      y += Math.max(...pair.map(({ height }) => height)) + GAP;
    }
  };
  add(
    title,
    'What lockstep does in the time in which another does one, with the 95 % interval.',
    ratioPanels(compared),
  );
  add(
    'With bad nodes among five',
    'Time of an acquisition: p50 (mark) to p99 (line); a mark beyond 15 s was not waited for.',
    healths.map((health) => healthPanel(health, rows)),
  );
  const caption = `${machine.redis}, ioredis ${machine.ioredis}, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * COLUMN} ${y + 24}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}</style>`,
    ...parts,
    text(12, y + 10, caption, 's'),
    '</svg>',
  ].join('\n');
}

/** All on one scale. */
function ratioPanels(compared: readonly Comparison[]): Panel[] {
  const least = Math.min(0.5, ...compared.map(({ ops }) => ops.low));
  const most = Math.max(2, ...compared.map(({ ops }) => ops.high));
  const x = logScale(least, most);
  const ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20].filter((tick) => tick >= least && tick <= most);
  return [...new Set(compared.map(({ shape }) => shape))].map((shape) => {
    const entries = compared
      .filter((it) => it.shape === shape)
      .map(({ against, ops: { low, median, high } }) => {
        return { name: against, from: low, mark: median, to: high, figure: `${median.toFixed(2)} ×` };
      });
    const one = line(x(1), HEAD - 6, x(1), HEAD + entries.length * ROW, 'one');
    return panel(TITLES[shape], entries, x, ticks, (tick) => `${tick} ×`, [one]);
  });
}

function healthPanel(health: Health, all: readonly BenchRow[]): Panel {
  const rows = all.filter((row) => row.health === health);
  const entries = rows.map(({ subject, stalledMs, p50Us, p99Us }) => {
    if (stalledMs === null) return { name: subject, from: p50Us, mark: p50Us, to: p99Us, figure: duration(p50Us) };
    const us = stalledMs * 1000;
    return { name: subject, from: us, mark: us, to: us, figure: `> ${duration(us)}` };
  });
  const own = rows.find(({ subject }) => subject === 'lockstep');
  const fails = own !== undefined && own.operations > 0 && own.failed === own.operations;
  const ticks = [100, 10_000, 1_000_000];
  const title = `${health.replace('-', ' ')}${fails ? ': the time until it fails' : ''}`;
  return panel(title, entries, logScale(50, 20_000_000), ticks, duration);
}

function panel(
  title: string,
  entries: readonly Entry[],
  x: Scale,
  ticks: readonly number[],
  label: (tick: number) => string,
  behind: readonly string[] = [],
): Panel {
  const height = HEAD + entries.length * ROW;
  const grid = ticks.flatMap((tick) => [
    line(x(tick), HEAD - 6, x(tick), height, 'g'),
    text(x(tick), HEAD - 12, label(tick), 's', 'middle'),
  ]);
  const lines = entries.flatMap(({ name, from, mark, to, figure }, index) => {
    const y = HEAD + index * ROW + ROW / 2;
    const kind = name === 'lockstep' ? 'own' : name.startsWith('floor') ? 'floor' : 'other';
    return [
      text(LEFT - 14, y + 4, name, '', 'end'),
      line(x(from), y, x(to), y, `line ${kind}`),
      markOf(x(mark), y, kind),
      text(END + 14, y + 4, figure),
    ];
  });
  return { height, marks: [text(12, 14, title, 'p'), ...grid, ...behind, ...lines] };
}

function markOf(x: number, y: number, kind: 'own' | 'floor' | 'other'): string {
  if (kind === 'other') return `<rect x="${round(x - 4)}" y="${y - 4}" width="8" height="8" class="mark other"/>`;
  return `<circle cx="${round(x)}" cy="${y}" r="4" class="mark ${kind}"/>`;
}

function logScale(least: number, most: number): Scale {
  const span = Math.log(most / least);
  return (value) => LEFT + (Math.log(Math.max(value, least) / least) / span) * (END - LEFT);
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
