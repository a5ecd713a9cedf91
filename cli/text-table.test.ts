import { expect, test } from 'vitest';
import { lockstep } from './testing/in-process.js';
import { textTable } from './text-table.js';

const HEAD = ['id', 'title', 'n'];
const ROWS = [
  ['a', 'some words that are longer than there is room', '7'],
  ['b', 'one/word/that/is/longer/than/its/column', '12'],
];

test('a table that fits is left alone', () => {
  const table = textTable(HEAD, ROWS, 2, 80);
  expect(table).toBe(textTable(HEAD, ROWS, 2));
  expect(table.split('\n')).toHaveLength(3);
});

test('one that does not goes on in further lines, and loses nothing', () => {
  const table = textTable(HEAD, ROWS, 2, 30);
  for (const line of table.split('\n')) expect(line.length).toBeLessThanOrEqual(30);
  expect(table.replaceAll(/\s+/g, '')).toContain('one/word/that/is/longe');
  expect(table).toContain('some words that are');
});

test.each([40, 60, 88, 120])('the catalogue fits into %i columns', async (columns) => {
  const out = { isTTY: false, columns, write: () => {} };
  const { stdout } = await lockstep(['list'], { stdout: out });
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
});
