import { expect, it } from 'vitest';
import type { Advice } from './advice.js';
import { type Change, slewing } from './changes.js';
import { parseSystem } from './parse-system.js';
import { clockLinesOf } from './words.js';

function adviceFor(description: object, changes: readonly Change[] = []): Advice {
  return { advised: parseSystem(description), changes } as unknown as Advice;
}

it.each([
  ['0.05%', 'maxslewrate 400'],
  ['0.2%', 'maxslewrate 1600'],
])('has chrony slew clocks slowly enough for %s', (drift, line) => {
  const clocks = clockLinesOf(adviceFor({ nodes: { count: 3 }, clocks: { drift } }));
  expect(clocks?.says).toContain(`that run right to ${drift.replace('%', ' %')}`);
  expect(clocks?.lines.flatMap(({ lines }) => lines)).toContain(line);
});

it('says by whom clocks of nodes are set, and nothing of those that are not the reader’s', () => {
  const says = (description: object): string | undefined => clockLinesOf(adviceFor(description))?.says;
  const nodes = { count: 3 };
  expect(says({ nodes, clocks: { steps: '0' } })).toContain('and are never set');
  expect(says({ nodes, clocks: { steps: '100ms' } })).toContain('by no more than 100 ms, by hand');
  expect(says({ nodes: { ...nodes, supervisor: 'managed' }, clocks: { steps: '0' } })).toBe(
    'It rests on clocks of clients that run right to 0.05 %. Where that is not so yet:',
  );
});

it('leaves to a change what that says', () => {
  const description = { nodes: { count: 3 } };
  expect(clockLinesOf(adviceFor(description, [slewing(parseSystem(description))]))).toBeNull();
});
