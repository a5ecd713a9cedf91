import { parseArgs } from 'node:util';
import { textTable } from '../cli/text-table.js';
import { assumptionsTable, BOUNDARY_PAIRS, playPair } from './bounds/boundary-pairs.js';
import { decimals } from './bounds/markdown.js';
import type { Row } from './bounds/row.js';
import { boundsTable } from './bounds/table.js';

/** Every boundary of the lock, measured by runs of the simulator and computed from its formula. */
interface BoundsBench {
  readonly schema: 'lockstep.bench-bounds/1';
  readonly agree: number;
  readonly disagree: number;
  readonly rows: readonly Row[];
}

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, assumptions: { type: 'boolean', default: false } },
});

if (values.assumptions) showAssumptions();
else showBounds();

/** Both sides of each assumption, played. */
function showAssumptions(): void {
  const rows = BOUNDARY_PAIRS.map((pair) => ({ pair, holds: playPair(pair).holds }));
  const disagree = rows.filter(({ holds }) => !holds).length;
  const table = rows.map(({ pair: { assumption, what, inside, outside, breaks }, holds }) => {
    return { assumption, what, inside, outside, breaks, agrees: holds };
  });
  const schema = 'lockstep.bench-assumptions/1';
  const text = `${assumptionsTable()}\n\n${rows.length - disagree} agree, ${disagree} differ\n`;
  process.stdout.write(values.json ? `${JSON.stringify({ schema, rows: table })}\n` : text);
  if (disagree > 0) process.exitCode = 1;
}

function showBounds(): void {
  const result = measure();
  process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : describe(result));
  if (result.disagree > 0) process.exitCode = 1;
}

function measure(): BoundsBench {
  const rows = boundsTable();
  const agree = rows.filter((row) => row.agrees).length;
  return { schema: 'lockstep.bench-bounds/1', agree, disagree: rows.length - agree, rows };
}

function describe({ rows, agree, disagree }: BoundsBench): string {
  const heads = ['parameters', 'unit', 'measured', 'computed', 'limit', 'difference', 'in µs', ''];
  const cells = rows.map((row) => [
    row.parameters,
    row.unit,
    `${row.measured}`,
    decimals(row.computed),
    row.limit === null ? '' : decimals(row.limit),
    decimals(row.difference),
    row.differenceUs === null ? '' : decimals(row.differenceUs),
    row.agrees ? '' : '<- differs',
  ]);
  const lines = [...new Set(rows.map((row) => row.quantity))].flatMap((quantity) => {
    const body = cells.filter((_, i) => rows[i]?.quantity === quantity);
    return ['', quantity, textTable(heads, body, 2)];
  });
  return `${lines.slice(1).join('\n')}\n\n${agree} agree, ${disagree} differ\n`;
}
