import { describe, expect, it } from 'vitest';
import { extendedRows, forgetfulRows, splitRows } from './count-rows.js';
import { fsyncRows } from './fsync-rows.js';
import { rateRows } from './rate-rows.js';
import type { Row } from './row.js';
import { extensionRows, restartRows, stepRows, waitingRows } from './time-rows.js';

const rates = rateRows();
const steps = stepRows();

/** A row as a failure should show it. */
function told(row: Row): string {
  return `${row.quantity}, ${row.parameters}: measured ${row.measured}, computed ${row.computed} ${row.unit}`;
}

describe('measured boundaries are where the formulas put them, to one microsecond or one ppm', () => {
  const suites: readonly (readonly [string, () => Row[], number])[] = [
    ['errors of rate', () => rates, 125],
    ['forgetful nodes', forgetfulRows, 60],
    ['steps of clocks', () => steps, 100],
    ['restart without persistence', restartRows, 90],
    ['an append-only file', fsyncRows, 16],
    ['extensions', extensionRows, 14],
    ['nodes that carry out an extension', extendedRows, 15],
    ['split votes', splitRows, 28],
    ['waiting for a free lock', waitingRows, 26],
  ];
  it.each(suites)('%s', (_, rows, count) => {
    const all = rows();
    expect(all.filter((row) => !row.agrees).map(told)).toEqual([]);
    expect(all).toHaveLength(count);
  });
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
