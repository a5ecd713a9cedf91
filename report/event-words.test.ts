import { expect, it } from 'vitest';
import { judge } from '../properties/index.js';
import { findScenario } from '../scenarios/catalogue.js';
import { ruleOf } from './event-words.js';
import { headingOf } from './heading.js';
import { type Scene, sceneOf } from './picture/scene.js';
import { snapshotOf } from './run-snapshot.js';
import { tellingOf } from './timeline.js';

const { schedule } = findScenario('S03');
const judgement = judge(schedule, [], true);

/** The rules by which events of these kinds came out, in the words of the page. */
function rules(lock: 'own' | 'foreign', ...kinds: readonly string[]): string[] {
  const scene: Scene = sceneOf(schedule, snapshotOf(schedule, judgement, lock));
  return [...new Set(scene.events.filter(({ kind }) => kinds.includes(kind)).map((event) => ruleOf(event, scene)))];
}

it('explains a claim of the lock of this project by its policy', () => {
  const [claim = ''] = rules('own', 'claim');
  expect(claim).toMatch(/^3 votes ≥ quorum 3 of 5\. By its own clock: T1 \+ TTL .* − drift allowance \S+ = .* ms\.$/);
});

it('does not explain a claim of another lock by that policy', () => {
  expect(rules('foreign', 'claim')).toEqual([
    '3 of 5 nodes had granted it. That it is held, and until when, is what the client itself says.',
  ]);
  const all = rules('foreign', 'claim', 'extended', 'reply', 'expired', 'execute', 'key-gone').join(' ');
  expect(all).not.toMatch(/quorum|drift|validity/);
  const line = (lock: 'own' | 'foreign'): string => headingOf(schedule, tellingOf(schedule, judgement), lock).config;
  expect(line('own')).toContain('5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none');
  expect(line('foreign')).toMatch(/^5 nodes, majority 3, ttl 10 000 ms, persistence none · /);
});
