import { expect, test } from 'vitest';
import { compare, partingSentence } from './diff.js';
import { CATALOGUE, sceneNamed } from './testing/scenes.js';

test('a run is the same as itself, in every scenario', () => {
  for (const { id } of CATALOGUE) {
    const scene = sceneNamed(id);
    const comparison = compare(scene, sceneNamed(id));
    expect({ id, first: comparison.first, rows: comparison.rows.length }).toEqual({
      id,
      first: -1,
      rows: scene.events.length,
    });
  }
});

test('S03 with and without persistence part at the restart, and what has nothing to do with it stays aligned', () => {
  const [without, having] = [sceneNamed('S03'), sceneNamed('S03', 'persistence=always')];
  const comparison = compare(without, having);
  const row = comparison.rows[comparison.first];
  const [a, b] = [
    { scene: without, name: 'as written' },
    { scene: having, name: 'with persistence=always' },
  ];
  expect(partingSentence(comparison, a, b)).toBe(
    'The runs part at 3 ms: as written, n2: A forgotten; with persistence=always, at 10 002 ms: A expired.',
  );
  expect(row?.a?.kind).toBe('key-gone');
  const refusedByAll = comparison.rows.filter(({ a, b }) => a?.kind === 'execute' && b?.kind === 'execute');
  expect(refusedByAll.length).toBeGreaterThanOrEqual(8);
});

test('every event of both runs is in exactly one row', () => {
  const [a, b] = [sceneNamed('S24'), sceneNamed('S24', 'ttl=30s')];
  const { rows } = compare(a, b);
  expect(rows.flatMap((row) => (row.a === null ? [] : [row.a.seq])).sort((x, y) => x - y)).toEqual(
    a.events.map((it) => it.seq),
  );
  expect(rows.flatMap((row) => (row.b === null ? [] : [row.b.seq])).sort((x, y) => x - y)).toEqual(
    b.events.map((it) => it.seq),
  );
});

test('two schedules are aligned as far as they go together, and the first thing that only one has is named', () => {
  const [a, b] = [sceneNamed('S03'), sceneNamed('S04')];
  const comparison = compare(a, b);
  const named = [
    { scene: a, name: 'in S03' },
    { scene: b, name: 'in S04' },
  ] as const;
  expect(comparison.rows.slice(0, comparison.first).every(({ same }) => same)).toBe(true);
  expect(partingSentence(comparison, ...named)).toMatch(/^The runs part at [\d .]+ ms: in S0[34], /);
  const [there, back] = [comparison, compare(b, a)];
  expect(back.rows[back.first]?.a).toEqual(there.rows[there.first]?.b);
});
