import { expect, test } from 'vitest';
import { CATALOGUE, sceneNamed } from './testing/scenes.js';

test.each([
  ['S16', 'A expired there 2 ms before the claim of c1 ended, since by their clocks n2 gained 106 ms.'],
  ['S17', 'since by their clocks n0 n1 n2 gained 52.72 ms and c1 lost 52.739 ms.'],
  ['S24', ': c1 was frozen from 7 to 20 000, between its check and the write; c2 had written meanwhile, at 10 005.5.'],
  ['S25', 'it was sent at 9 000 and was 90 000 ms on its way'],
  ['S29f', ': n1 had lost its counter.'],
  ['S37', 'n0 n1 voted for c1 and n2 n3 for c2, and 2 of 5 is no majority.'],
  ['S38', 'n0 n1 voted for c1 and n2 n3 n4 for c2, and c1 counted 3 votes of 2 nodes.'],
  ['S38b', 'n0 n1 n2 voted for c1 and n4 n5 n6 for c2, since c1 asks n0–n4 and c2 asks n2–n6.'],
  ['S43', 'before the claim of c1 ended, as only n0 n1 extended it at 5 002, and 2 of 5 is no majority.'],
  ['S39', 'c1 itself deleted B on n1 n2, by what it had sent at 7 for an earlier try.'],
  ['S64', 'since c1 asks n0 and c2 asks n1; n1 had taken over as the replica of n0.'],
  ['S12', 'n0 n1 n2 were down, too few were up for a quorum.'],
  ['S10', 'nobody held it, but there was still A of c1 on n0 n1 n2.'],
])('the sentence of %s says why', (id, why) => {
  expect(sceneNamed(id).heading.sentences.join(' ')).toContain(why);
});

test('where clocks were right, nobody blames them', () => {
  for (const id of ['S03', 'S43b', 'F3b'])
    expect(sceneNamed(id).heading.sentences.join(' ')).not.toMatch(/clock|frozen/);
});

test('no sentence counts in microseconds', () => {
  for (const { id } of CATALOGUE) expect(sceneNamed(id).heading.sentences.join(' ')).not.toMatch(/\d us\b/);
});
