import { expect, test } from 'vitest';
import type { Fate } from '../scenarios/index.js';
import { Observer } from './observer.js';
import { ScriptedAdversary } from './scripted.js';
import { setupOf } from './simulate.js';
import { lock, schedule } from './testing/schedule.js';
import { World } from './world.js';

test('knows which of its fates matched no message', () => {
  const to = { client: 'c1', operation: 'acquire', direction: 'request' } as const;
  const used: Fate = { ...to, node: 'n0', delayUs: 5 };
  const unused: Fate[] = [
    { ...to, node: 'n1', send: 1, lost: true },
    { ...to, node: 'n2', attempt: 7, lost: true },
    // Of a request that is lost there is no reply.
    { ...to, node: 'n3', direction: 'reply', lost: true },
  ];
  const fates: Fate[] = [...unused, used, { ...to, node: 'n3', lost: true }];
  const plan = schedule({ locks: [[lock(0)]], fates });
  const adversary = new ScriptedAdversary(plan);
  expect(adversary.unusedFates).toEqual(fates);
  new World(setupOf(plan), adversary, new Observer(), false).run();
  expect(adversary.unusedFates).toEqual(unused);
});
