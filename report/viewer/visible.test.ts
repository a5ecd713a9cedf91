import { expect, test } from 'vitest';
import { layout } from '../picture/layout.js';
import { type Mark, STATIC_VIEW } from '../picture/marks.js';
import { sceneNamed } from '../testing/scenes.js';
import { MarkIndex, thinned } from './visible.js';

const picture = layout(sceneNamed('S03'), { ...STATIC_VIEW, heading: false });
const dot = (x: number, y: number): Mark => ({ shape: 'glyph', glyph: 'dot', role: 'yes', x, y });

test('all marks are seen between edges that lie around all of them, in their order', () => {
  expect(new MarkIndex(picture.marks).between(-1000, picture.width + 1000)).toEqual(picture.marks);
});

test('a mark is seen wherever a part of it lies, and nowhere else', () => {
  const line: Mark = {
    shape: 'line',
    role: 'request',
    points: [
      [100, 0],
      [9_000, 10],
    ],
  };
  const index = new MarkIndex([line, dot(5_000, 3), dot(1_023, 3)]);
  expect(index.between(4_990, 5_010)).toEqual([line, dot(5_000, 3)]);
  expect(index.between(1_030, 1_031)).toEqual([line, dot(1_023, 3)]);
  expect(index.between(9_100, 9_200)).toEqual([]);
  expect(index.between(2_000, 3_000)).toEqual([line]);
});

test('a picture with room for its marks keeps all of them', () => {
  expect(thinned(picture.marks, picture.width)).toBe(picture.marks);
});

test('where marks lie over each other one of each kind stays, and what is wide or said in words stays', () => {
  const box = (x: number, w: number): Mark => ({ shape: 'box', role: 'key', x, y: 0, w, h: 9 });
  const word: Mark = { shape: 'text', role: 'note', x: 1, y: 1, text: 'SET A' };
  const crowd = Array.from({ length: 2_000 }, (_, i) => dot(i / 20, 7));
  const left = thinned([...crowd, dot(50, 9), box(3, 2), box(3.4, 2), box(3, 90), word], 100);
  expect(left.length).toBeLessThanOrEqual(110);
  expect(left).toContainEqual(dot(50, 9));
  expect(left).toContainEqual(box(3, 2));
  expect(left).not.toContainEqual(box(3.4, 2));
  expect(left).toContainEqual(box(3, 90));
  expect(left).toContain(word);
  for (let x = 0; x < 100; x++) expect(left.some((it) => it.shape === 'glyph' && Math.floor(it.x) === x)).toBe(true);
});
