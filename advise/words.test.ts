import { expect, it } from 'vitest';
import type { Advice } from './advice.js';
import { allowing, type Change, slewing } from './changes.js';
import { parseSystem } from './parse-system.js';
import { clockLinesOf } from './words.js';

function adviceFor(description: object, changes: readonly Change[] = []): Advice {
  const system = parseSystem(description);
  return { system, advised: changes.at(-1)?.after ?? system, changes } as unknown as Advice;
}

it.each([
  ['0.05%', 'maxslewrate 400', 'a second takes 42 min'],
  ['0.2%', 'maxslewrate 1600', 'a second takes 11 min'],
])('has chrony slew clocks slowly enough for %s, and says what that takes', (drift, line, cost) => {
  const clocks = clockLinesOf(adviceFor({ nodes: { count: 3 }, clocks: { drift } }));
  expect(clocks?.title).toContain(`have to run right to ${drift.replace('%', ' %')}`);
  expect(clocks?.title).toContain(cost);
  expect(clocks?.lines.flatMap(({ lines }) => lines)).toContain(line);
});

it('says nothing of clocks of nodes that are not the reader’s', () => {
  const title = (description: object): string | undefined => clockLinesOf(adviceFor(description))?.title;
  const nodes = { count: 3 };
  expect(title({ nodes })).toContain('before Redis and what locks start');
  expect(title({ nodes: { ...nodes, supervisor: 'managed' } })).toContain('before what locks starts');
});

it('says why a lock gives up more than clocks need that chrony slews, and by whom they are set', () => {
  const title = (client: object, clocks: object): string | undefined =>
    allowing(parseSystem({ nodes: { count: 3 }, client, clocks }))?.title;
  const client = { library: 'redsync-4', ttl: '8s' };
  const people = 'people or tools set clocks by up to';
  expect(title(client, { steps: '100ms' })).toContain(`${people} 100 ms`);
  expect(title(client, { drift: '2%', steps: '0' })).not.toContain(people);
  // A clock that a client does not read makes no difference.
  expect(title(client, { drift: '2%', steps: '0', clientSteps: '1s' })).not.toContain(people);
});

it('names the stops of each before a step of chronyd, and by how much a lock withstands one', () => {
  const text = (steps: string): string =>
    (clockLinesOf(adviceFor({ nodes: { count: 3 }, clocks: { steps } }))?.lines ?? [])
      .flatMap(({ lines }) => lines)
      .join('\n');
  expect(text('100ms')).toContain('before a step of more than 100 ms on a running machine');
  expect(text('0')).toContain('before a step on a running machine, stop what locks there, and Redis for a TTL');
});

it('says how chrony sets clocks only where a change does not say so', () => {
  const clocksWith = (steps: string): unknown => {
    const description = { nodes: { count: 3 }, clocks: { steps } };
    return clockLinesOf(adviceFor(description, [slewing(parseSystem(description))]));
  };
  expect(clocksWith('any')).toBeNull();
  expect(clocksWith('100ms')).not.toBeNull();
});
