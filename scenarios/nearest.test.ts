import { expect, test } from 'vitest';
import { meant, nearest } from './nearest.js';

const FIELDS = ['delayUs', 'nodes', 'link', 'replicaLagUs', 'persistence'];

test.each([
  ['delayMs', 'delayUs'],
  ['node', 'nodes'],
  ['DELAYUS', 'delayUs'],
  ['replicaLag', 'replicaLagUs'],
  ['persistance', 'persistence'],
  ['lnik', undefined],
  ['colour', undefined],
  ['', undefined],
])('%j means %j', (word, field) => {
  expect(nearest(word, FIELDS)).toBe(field);
});

test('takes the nearest, not the first', () => {
  expect(nearest('clock-stop', ['clock-drift', 'clock-step'])).toBe('clock-step');
});

test('names all where nothing is near', () => {
  expect(meant('colour', FIELDS, 'the fields are')).toBe(
    'the fields are delayUs, nodes, link, replicaLagUs, persistence',
  );
  expect(meant('colour', [], 'the fields are')).toBe('there are none');
});

test('prefers, of words that are equally near, the one that begins with the same letter', () => {
  expect(nearest('S3', ['F3', 'S03'])).toBe('S03');
  expect(nearest('S3', ['S03', 'F3'])).toBe('S03');
  expect(nearest('X3', ['F3', 'S3'])).toBe('F3');
});
