import { expect, it } from 'vitest';
import type { Fate } from '../../scenarios/index.js';
import { lock } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const locks = [[lock(0, { holdUs: 5_000 })]];
const unanswered: Fate[] = [{ client: 'c1', operation: 'acquire', node: 'n4', direction: 'reply', lost: true }];

it('release-to-all is broken by a release that leaves out a node which was asked, as it is sent', () => {
  expect(found('release-to-all', { locks, policy: { deviations: ['releases-granted'] }, fates: unanswered })).toEqual([
    'c1 7000',
  ]);
});

it('release-to-all holds when all nodes are told, or all that were asked', () => {
  expect(found('release-to-all', { locks, fates: unanswered })).toEqual([]);
  expect(found('release-to-all', { locks, policy: { deviations: ['releases-granted'] } })).toEqual([]);
  const oneByOne = { deviations: ['asks-in-turn', 'releases-granted'] } as const;
  expect(found('release-to-all', { locks, policy: oneByOne })).toEqual([]);
});
