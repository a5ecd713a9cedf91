import { expect, it } from 'vitest';
import { NATIVES } from './natives.js';

it('takes maps and sets of packages for such', () => {
  const [MapOfFile, SetOfFile] = [NATIVES.Map, NATIVES.Set] as [MapConstructor, SetConstructor];
  for (const it of [new Map(), new MapOfFile()]) expect(it instanceof MapOfFile).toBe(true);
  for (const it of [new Set(), new SetOfFile([1])]) expect(it instanceof SetOfFile).toBe(true);
  for (const it of [{}, null, [], new Set()]) expect(it instanceof MapOfFile).toBe(false);
});
