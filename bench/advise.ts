import { readdirSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Advice, adviseOn, figuresOf } from '../advise/advice.js';
import { agrees } from '../advise/figures.js';
import { searchInside } from '../advise/inside.js';
import { parseSystem } from '../advise/parse-system.js';
import { restartLoss } from '../advise/stress-of.js';
import type { System } from '../advise/system.js';
import { textTable } from '../cli/text-table.js';
import { DEFAULT_SCOPE, type ExploreScope, explore, scopeError } from '../explore/index.js';
import { judge } from '../properties/judge.js';

/** What became of one system: its advice, and whether that withstood what was tried against it. */
interface Row {
  readonly system: string;
  readonly verdict: Advice['verdict'];
  readonly seconds: number;
  /** Figures, and those of which the formula, the safe run and the violated run are as they should be. */
  readonly figures: number;
  readonly proved: number;
  readonly runs: number;
  readonly found: string;
  readonly explored: string;
  readonly holds: boolean;
}

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, runs: { type: 'string', default: '100000' } },
});
/** The TTL of the world that is explored. */
const TICKS = 3;
const FOLDER = new URL('../../examples/systems/', import.meta.url);

const rows: Row[] = [];
for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.json'))) {
  rows.push(await rowOf(file, Number(values.runs)));
}
process.stdout.write(values.json ? `${JSON.stringify({ schema: 'lockstep.bench-advise/1', rows })}\n` : table(rows));
if (rows.some(({ holds }) => !holds)) process.exitCode = 1;

async function rowOf(file: string, runs: number): Promise<Row> {
  const system = parseSystem(JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')), file);
  const began = process.cpuUsage();
  const advice = await adviseOn(system);
  const { user } = process.cpuUsage(began);
  const figures = figuresOf(advice.figures);
  const proved = figures.filter(
    (figure) =>
      agrees(figure) &&
      !breaks(figure.safe.schedule, figure.breaks) &&
      (figure.violated === null || breaks(figure.violated.schedule, figure.breaks)),
  ).length;
  const isSafe = advice.verdict !== 'not';
  const search = await searchInside(advice.advised, { runs, seed: 'verify', shrink: false });
  const explored = exploredInside(advice.advised);
  const found = search.counterexample?.property ?? 'none';
  const holds =
    proved === figures.length && (isSafe ? found === 'none' && !explored.startsWith('violated') : remains(advice));
  return {
    system: file.replace('.json', ''),
    verdict: advice.verdict,
    seconds: user / 1e6,
    figures: figures.length,
    proved,
    runs: search.runs,
    found,
    explored,
    holds,
  };
}

function breaks(schedule: Parameters<typeof judge>[0], property: string): boolean {
  return judge(schedule).violations.some((it) => it.property === property);
}

/** What is said to remain is shown by a run that breaks. */
function remains({ remaining }: Advice): boolean {
  return (
    remaining.length > 0 &&
    remaining.every(
      ({ schedule, breaks: property }) => schedule !== null && property !== null && breaks(schedule, property),
    )
  );
}

/** A small world of the advised system, where there is one: ticks stand for thirds of its TTL. */
function exploredInside(system: System): string {
  const { nodes, client, clocks } = system;
  const loses = nodes.some((node) => restartLoss(node) !== null && node.restartUs !== null);
  const delayUs = Math.min(...nodes.flatMap(({ restartUs }) => (restartUs === null ? [] : [restartUs])));
  const drifts = clocks.driftPpm > 0 && nodes.length !== 4;
  const scope: ExploreScope = {
    ...DEFAULT_SCOPE,
    // Of more nodes than four, three show the same; an even number is a case of its own.
    nodes: nodes.length === 4 ? 4 : Math.min(3, nodes.length),
    crashes: loses ? 1 : 0,
    restartDelay: loses ? Math.ceil((TICKS * delayUs) / (1000 * client.ttlMs)) : null,
    drift: drifts ? 1 : 0,
    allowance: drifts ? 1 : 0,
  };
  const error = scopeError(scope);
  if (error !== null) return `not a small world (${error})`;
  const { verdict, states } = explore({ bounds: scope, property: 'mutual-exclusion' });
  if (!loses) return `${verdict}, ${states} states`;
  const atOnce = explore({ bounds: { ...scope, restartDelay: 0 }, property: 'mutual-exclusion' });
  return `${verdict}, ${states} states; back at once: ${atOnce.verdict}`;
}

function table(all: readonly Row[]): string {
  const heads = ['system', 'verdict', 'explored', 'figures', 'proved', 's', 'runs', 'found', ''];
  const cells = all.map((row) => [
    row.system,
    row.verdict,
    row.explored,
    `${row.figures}`,
    `${row.proved}`,
    row.seconds.toFixed(1),
    `${row.runs}`,
    row.found,
    row.holds ? '' : '<- does not hold',
  ]);
  return `${textTable(heads, cells, 3)}\n\n${all.filter(({ holds }) => holds).length} of ${all.length} hold\n`;
}
