import { expectSafe } from 'lockstep/testing';
import { expect, test } from 'vitest';
import { CheckThenSet, SetIfAbsent } from './my-lock.js';

// What is tried: one node, three clients, lost messages. `expectSafe` throws with the shortest history that it finds.
const options = { nodes: 1, faults: { loss: 0.02 } };

test('asking first and setting then is no lock', async () => {
  await expect(expectSafe(({ nodes: [node] }) => new CheckThenSet(node), options)).rejects.toThrow('both held a');
});

test('setting what is not there is one, on a node that does not forget', async () => {
  const { claims } = await expectSafe(({ nodes: [node] }) => new SetIfAbsent(node), options);
  expect(claims).toBeGreaterThan(100);
});

test('… and none on a node that forgets when it crashes', async () => {
  const crashing = { nodes: 1, faults: { crash: 1 }, restartDelayMs: 0 };
  await expect(expectSafe(({ nodes: [node] }) => new SetIfAbsent(node), crashing)).rejects.toThrow('n0 forgot');
});
