import { expect, it } from 'vitest';
import type { Advice } from './advice.js';
import { type Change, slewing } from './changes.js';
import { parseSystem } from './parse-system.js';
import { clockLinesOf } from './words.js';

function adviceFor(description: object, changes: readonly Change[] = []): Advice {
  const system = parseSystem(description);
  return { system, advised: changes.at(-1)?.after ?? system, changes } as unknown as Advice;
}

it.each([
  ['0.05%', 'maxslewrate 400', 'a second takes 42 min, an hour 105 days'],
  ['0.2%', 'maxslewrate 1600', 'a second takes 11 min, an hour 27 days'],
])('has chrony slew clocks slowly enough for %s, and says what that takes', (drift, line, cost) => {
  const clocks = clockLinesOf(adviceFor({ nodes: { count: 3 }, clocks: { drift } }));
  expect(clocks?.title).toContain(`have to run right to ${drift.replace('%', ' %')}`);
  expect(clocks?.title).toContain(cost);
  expect(clocks?.lines.flatMap(({ lines }) => lines)).toContain(line);
});

it('says by whom clocks of nodes are set, and nothing of those that are not the reader’s', () => {
  const title = (description: object): string | undefined => clockLinesOf(adviceFor(description))?.title;
  const nodes = { count: 3 };
  const byPeople = 'made by people and tools alone';
  expect(title({ nodes, clocks: { steps: '0' } })).not.toContain(byPeople);
  expect(title({ nodes, clocks: { steps: '100ms' } })).toContain(`Steps of up to 100 ms are then ${byPeople}`);
  expect(title({ nodes: { ...nodes, supervisor: 'managed' }, clocks: { steps: '100ms' } })).not.toContain(byPeople);
});

it('has chrony step no clock only where a change does not say so', () => {
  const clocksWith = (steps: string): unknown => {
    const description = { nodes: { count: 3 }, clocks: { steps } };
    return clockLinesOf(adviceFor(description, [slewing(parseSystem(description))]));
  };
  expect(clocksWith('any')).toBeNull();
  expect(clocksWith('100ms')).not.toBeNull();
});
