import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { verifyHistory } from './verify.js';

const FOLDER = new URL('recorded/', import.meta.url);

function linesOf(name: string): string[] {
  return readFileSync(new URL(`${name}.jsonl`, FOLDER), 'utf8').split('\n');
}

/** Each history with what is proven by it, as property and lines. */
const PROVEN: Readonly<Record<string, readonly (readonly [property: string, ...lines: number[]])[]>> = {
  // Called violated before: what the first holder had left was less than it had been told.
  'shorter-extension-in-flight': [],
  'shorter-extension-unknown': [],
  'crashed-and-cleaned-up': [],
  'crash-noticed-late': [],
  // Called fine before.
  'acquired-with-nothing-left': [['acquisition', 2]],
  'extended-with-nothing-left': [['extension', 4]],
  'fencing-token-back': [['fencing', 2, 6]],
  'fencing-token-twice': [['fencing', 2, 6]],
  // Refused before, though clients do record such.
  'released-after-unknown': [],
  'two-extensions-at-a-time': [],
  'extended-after-release': [['mutual-exclusion', 6, 8, 9]],
  // Right before, and beside those above: an extension that was refused takes nothing away.
  'refused-extension-holds-on': [['mutual-exclusion', 2, 6, 7, 9]],
};

test('every recorded history has its verdict here', () => {
  const files = readdirSync(FOLDER).map((file) => file.replace(/\.jsonl$/, ''));
  expect(files.sort()).toEqual(Object.keys(PROVEN).sort());
});

test.each(Object.entries(PROVEN))('%s proves what it proves, and no more', (name, proven) => {
  const { verdict, violations, doubts } = verifyHistory(linesOf(name));
  expect(violations.map(({ property, lines }) => [property, ...lines])).toEqual(proven);
  expect([verdict, doubts]).toEqual([proven.length > 0 ? 'violated' : 'passed', []]);
});

test.each(['crashed-and-cleaned-up', 'crash-noticed-late'])('%s is violated if nobody tells of the death', (name) => {
  const told = linesOf(name).filter((line) => !line.includes('"crashed"'));
  expect(verifyHistory(told).violations).toMatchObject([{ property: 'mutual-exclusion' }]);
});

test('a death that was a millisecond too late for what its clock allows proves an overlap', () => {
  const lines = linesOf('crash-noticed-late').map((line) => line.replace('"errorUs":500000', '"errorUs":490000'));
  // Dead from 1 000 ms less 490 at the earliest; the second holder from 503 ms and 2 at the latest.
  expect(verifyHistory(lines).violations).toMatchObject([{ property: 'mutual-exclusion' }]);
});
