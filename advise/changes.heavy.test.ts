import { expect, it } from 'vitest';
import { changesFor } from './advice.js';
import type { Change } from './changes.js';
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
  expect(textOf(changes)).toContain('sleep 7.9\n');
  const slewed = alternatives.find(({ change }) => change.id === 'slew');
  // Its allowance is smaller, so that votes live longer beside it.
  expect(textOf(slewed?.others ?? [])).toContain('sleep 7.928\n');
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
