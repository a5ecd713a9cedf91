import { expect, test } from 'vitest';
import { schedule } from '../sim/testing/schedule.js';
import { configLine, nodeList, nodesDo } from './words.js';

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
