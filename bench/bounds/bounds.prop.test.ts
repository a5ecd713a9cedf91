import { describe, expect, it } from 'vitest';
import { dataLossRows, extendedRows, splitRows } from './count-rows.js';
import { effectRows, fencingRows } from './effect-rows.js';
import { fsyncRows } from './fsync-rows.js';
import { boundsMarkdown } from './markdown.js';
import { rateRows } from './rate-rows.js';
import type { Row } from './row.js';
import { extensionRows, restartRows, stepRows, waitingRows } from './time-rows.js';
import { timeoutRows } from './timeout-rows.js';

const rates = rateRows();
const steps = stepRows();
const SUITES: readonly (readonly [string, readonly Row[], number])[] = [
  ['errors of rate', rates, 125],
  ['nodes with data loss', dataLossRows(), 60],
  ['steps of clocks', steps, 100],
  ['restart without persistence', restartRows(), 90],
  ['an append-only file', fsyncRows(), 16],
  ['extensions', extensionRows(), 14],
  ['nodes that carry out an extension', extendedRows(), 15],
  ['split votes', splitRows(), 28],
  ['waiting for a free lock', waitingRows(), 26],
  ['node time-outs', timeoutRows(), 16],
  ['fencing tokens', fencingRows(), 28],
  ['writes that ask for validity', effectRows(), 30],
];

/** A row as a failure should show it. */
function told(row: Row): string {
  return `${row.quantity}, ${row.parameters}: measured ${row.measured}, computed ${row.computed} ${row.unit}`;
}

describe('measured boundaries are where the formulas put them, to one microsecond or one ppm', () => {
  it.each(SUITES)('%s', (_, rows, count) => {
    expect(rows.filter((row) => !row.agrees).map(told)).toEqual([]);
    expect(rows).toHaveLength(count);
  });
});

it('the table of them is what is measured (vitest -u writes it)', async () => {
  const file = new URL('table.md', import.meta.url);
  await expect(`${boundsMarkdown(SUITES.flatMap(([, rows]) => rows))}\n`).toMatchFileSnapshot(file.pathname);
});

describe('in the limit of continuous phases', () => {
  it('a rate differs from the measured one by no more than two microseconds are worth', () => {
    for (const row of [...rates, ...steps]) {
      if (row.limit === null || row.differenceUs === null) continue;
      const unitUs = row.difference === 0 ? 1 : row.differenceUs / row.difference;
      const off = Math.abs(row.measured - row.limit);
      expect(Math.min(off, off * unitUs), told(row)).toBeLessThanOrEqual(2);
    }
  });
});
