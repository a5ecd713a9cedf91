import { expect, it } from 'vitest';
import { changesFor } from './advice.js';
import { allowing, type Change, roundedUp } from './changes.js';
import { hazardsOf } from './hazards.js';
import { parseSystem } from './parse-system.js';

const NODES = { count: 3, persistence: 'everysec', restart: '1s', supervisor: 'systemd' };

function textOf(changes: readonly Change[]): string {
  return changes.flatMap(({ lines }) => lines.flatMap((it) => it.lines)).join('\n');
}

it('a guard comes with the lines that take down what it looks at', () => {
  const { changes } = changesFor(
    parseSystem({
      nodes: NODES,
      client: { library: 'redlock-py' },
      work: { longest: '9s' },
      pauses: { process: '1s' },
    }),
  );
  expect(changes.map(({ id }) => id)).toContain('guard');
  expect(textOf(changes)).toMatch(/^until = time\.time\(\)[\s\S]*^if until - time\.time\(\)/m);
});

it('an alternative has values of its own for what follows it, and is safe', () => {
  const system = parseSystem({ nodes: NODES, clocks: { steps: '100ms' }, client: { library: 'redsync-4', ttl: '8s' } });
  const { changes, alternatives } = changesFor(system);
  expect(changes.find(({ id }) => id === 'restart-delay')?.figure?.least).toBe(7_895_891);
  const slewed = alternatives.find(({ change }) => change.id === 'slew');
  // Its allowance is smaller, so that votes live longer beside it.
  expect(slewed?.others.find(({ id }) => id === 'restart-delay')?.figure?.least).toBe(7_927_923);
  for (const { change, others } of alternatives) {
    const { after } = others.at(-1) ?? change;
    expect(hazardsOf(after).filter(({ holds }) => !holds)).toEqual([]);
  }
});

it('a client with a pool is told to use a token for each try, unless its messages keep their order', () => {
  const ids = (network: object): string[] =>
    changesFor(
      parseSystem({ nodes: { count: 3, persistence: 'always' }, network, client: { library: 'redsync-4' } }),
    ).changes.map(({ id }) => id);
  expect(ids({})).toEqual(['own-tokens']);
  expect(ids({ reordering: false })).toEqual([]);
});

it('a figure is rounded up to what people write, with something to spare, and stays safe', () => {
  for (const [least, unit, rounded] of [
    [7_895_891, 1000, 8_000_000],
    [24_877_949, 1000, 25_000_000],
    [9_995_000, 1000, 10_500_000],
    [10_006, 1000, 11_000],
    [13_488, 1, 14_000],
    [9, 1, 10],
    [0, 1000, 0],
  ] as const) {
    expect(roundedUp(least, unit)).toBe(rounded);
  }
  const { changes } = changesFor(
    parseSystem({ nodes: NODES, clocks: { steps: '100ms' }, client: { library: 'redsync-4', ttl: '8s' } }),
  );
  expect(textOf(changes)).toContain('redsync.WithDriftFactor(0.014)');
  expect(textOf(changes)).toContain('sleep 8\n');
});

it('a lock that has no room for a rounded figure gets the exact one', () => {
  // Of a second, 895.105 ms are needed for clock errors and 100.4 ms for the votes.
  const system = parseSystem({
    nodes: { count: 3, persistence: 'always' },
    clocks: { drift: '0.05%', steps: '895ms' },
    network: { most: '50200us' },
    client: { library: 'redsync-2020', ttl: '1s', nodeTimeout: '101ms', ownTokens: true },
    work: { longest: '1us' },
  });
  const after = allowing(system)?.after;
  expect(after?.client.policy.settings.driftPpm).toBe(895_105);
  expect(hazardsOf(after ?? system).filter(({ id, holds }) => id !== 'writes' && !holds)).toEqual([]);
});
