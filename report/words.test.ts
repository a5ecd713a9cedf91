import { expect, test } from 'vitest';
import { schedule } from '../sim/testing/schedule.js';
import {
  configLine,
  formatCount,
  formatList,
  formatPercent,
  nodeList,
  nodesDo,
  plural,
  truncate,
  wrap,
} from './words.js';

test('lists of nodes are short', () => {
  expect(nodeList(['n0', 'n1', 'n3'])).toBe('n0 n1 n3');
  expect(nodeList(['n0', 'n1', 'n2', 'n3', 'n4', 'n6', 'n10'])).toBe('n0–n4 n6 n10');
  expect(nodeList(['n0', 'n1', 'n3', 'n4', 'n6'])).toBe('n0 n1 n3 n4 n6');
});

test('verbs agree with their nodes', () => {
  expect(nodesDo(['n1'], 5, 'refuses', 'refuse')).toBe('n1 refuses');
  expect(nodesDo(['n1', 'n2'], 5, 'refuses', 'refuse')).toBe('n1 n2 refuse');
  expect(nodesDo(['n0', 'n1'], 2, 'refuses', 'refuse')).toBe('all refuse');
});

test('numbers are grouped, and have their words', () => {
  expect([formatCount(1_234_567), formatCount(123)]).toEqual(['1 234 567', '123']);
  expect([plural(1, 'crash', 'crashes'), plural(2, 'crash', 'crashes')]).toEqual(['1 crash', '2 crashes']);
  expect([formatPercent(10_000), formatPercent(2_500)]).toEqual(['1 %', '0.25 %']);
  expect([formatList([]), formatList(['a']), formatList(['a', 'b', 'c'], 'or')]).toEqual(['', 'a', 'a, b or c']);
});

test('lines break between words, never inside a number', () => {
  expect(wrap('about 1 911 votes and 2 %', 9)).toEqual(['about', '1 911', 'votes and', '2 %']);
  expect(truncate('abcdef', 4)).toBe('abc…');
});

test('the line on what was run names the nodes that clients ask where they do not all ask the same', () => {
  const { clients, ...rest } = schedule();
  const apart = clients.map((client, i) => (i === 0 ? { ...client, nodes: ['n0', 'n1'] } : client));
  const others = apart.slice(1).map(({ id }) => `, ${id} asks n0–n4 (quorum 3)`);
  expect(configLine({ ...rest, clients: apart })).toContain(`5 nodes, c1 asks n0 n1 (quorum 2)${others.join('')}, ttl`);
});

test('the line on what was run names what a client does otherwise than the reference', () => {
  const usual = '5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none';
  expect(configLine(schedule())).toBe(usual);
  const policy = {
    deviations: ['stamps-us:1000', 'deadline-counted-after-us:5000'],
    habits: { clock: 'wall' },
  } as const;
  expect(configLine(schedule({ policy }))).toBe(
    `${usual}, wall clock, stamps of 1 ms, relative validity counted 5 ms late`,
  );
});
