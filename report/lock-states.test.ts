import { expect, test } from 'vitest';
import { watch } from './lock-states.js';
import { sceneNamed } from './testing/scenes.js';

test('the lock of c2 in S03: each answer counts, and the third yes makes it held', () => {
  const { schedule } = sceneNamed('S03');
  const { judgement, stepAt } = watch(schedule, []);
  const own = judgement.run.trace.filter((it) => it.process === 'c2');
  const replies = own.filter(({ kind, detail }) => kind === 'reply' && detail.operation === 'acquire');
  const votes = replies.map((it) => stepAt(it)?.map(({ phase, votes: { yes, no } }) => `${phase} ${yes}/${no}`));
  expect(votes).toEqual([
    ['acquiring 0/0', 'acquiring 0/1'],
    ['acquiring 0/1', 'acquiring 0/3'],
    ['acquiring 0/3', 'acquiring 4/3'],
    ['acquiring 4/3', 'acquiring 12/3'],
    ['acquiring 12/3', 'held 28/3'],
  ]);
  const [claim] = own.filter(({ kind }) => kind === 'claim');
  expect(claim === undefined ? null : stepAt(claim)?.map(({ phase }) => phase)).toEqual(['acquiring', 'held']);
  const [expired] = own.filter(({ kind }) => kind === 'expired');
  expect(expired === undefined ? null : stepAt(expired)?.map(({ phase }) => phase)).toEqual(['held', 'lost']);
});

test('watching changes nothing', () => {
  const scene = sceneNamed('S24');
  expect(watch(scene.schedule, []).judgement.run.trace).toEqual(scene.events);
});
