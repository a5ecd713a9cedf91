import { expect, it } from 'vitest';
import { assumptionsOf, stopsOf } from './assumptions.js';
import { writesHold } from './hazards.js';
import { parseSystem } from './parse-system.js';

it('marks what nobody said and may be worse, and nothing else', () => {
  const defaultsOf = (description: object): string[] =>
    assumptionsOf(parseSystem({ nodes: { count: 3 }, ...description }))
      .filter(({ isDefault }) => isDefault)
      .map(({ field }) => field);
  const all = ['--pause', 'pauses', '--work', '--drift', '--steps', '--latency', 'network.write'];
  const ofNodes = ['nodes.evicts', '--failover'];
  expect(defaultsOf({})).toEqual([...all, '--reordering', ...ofNodes]);
  // A pool of connections is taken for the worst.
  const [first, second, third, ...rest] = all;
  expect(defaultsOf({ client: { library: 'redsync-4' } })).toEqual([
    first,
    second,
    third,
    '--node-timeout',
    ...rest,
    ...ofNodes,
  ]);
  expect(
    defaultsOf({
      nodes: { count: 3, persistence: 'everysec', evicts: false, failover: 'none', disk: 'kept' },
      clocks: { drift: '0.05%', steps: '0' },
      pauses: { process: '1s', suspend: '0', vm: '0' },
      network: { most: '10ms', write: '10ms', reordering: false },
      work: { longest: '3s' },
    }),
  ).toEqual([]);
});

it.each([
  ['reference', undefined, ', with 1 of 3 nodes silent'],
  [
    'redsync-4',
    'redsync 4 waits up to 500 ms for a node that does not answer (5 % of the TTL)',
    ', with 1 of 3 nodes silent',
  ],
  ['node-redlock-4', 'node-redlock 4 has no time-out for a node that does not answer', ', while all nodes answer'],
  ['node-redlock-5', undefined, ', with 1 of 3 nodes silent'],
])(
  'says for how long %s waits for a silent node, and with how many the room for pauses holds',
  (library, says, room) => {
    const rows = assumptionsOf(parseSystem({ nodes: { count: 3 }, client: { library }, work: { longest: '3s' } }));
    const wait = rows.find(({ field }) => field === '--node-timeout');
    if (says === undefined) expect(wait).toBeUndefined();
    else expect(wait?.says).toContain(says);
    expect(rows.find(({ field }) => field === '--pause')?.says).toContain(room);
  },
);

it.each([
  ['a TTL', { work: { longest: '3s' } }],
  ['a guard', { work: { longest: '9s' }, client: { guard: '500ms' } }],
])('knows to the microsecond which stops %s withstands', (_, description) => {
  const system = parseSystem({ nodes: { count: 3 }, ...description });
  const stopped = (processUs: number): boolean => writesHold({ ...system, pauses: { ...system.pauses, processUs } });
  const us = stopsOf(system) ?? Number.NaN;
  expect(us).toBeGreaterThan(100_000);
  expect([stopped(us), stopped(us + 1)]).toEqual([true, false]);
});

it('knows no limit of stops where tokens are compared, and none where writes come too late without them', () => {
  const fenced = { client: { fencing: true }, resource: { checksToken: true } };
  expect(stopsOf(parseSystem({ nodes: { count: 3 }, ...fenced }))).toBeNull();
  expect(stopsOf(parseSystem({ nodes: { count: 3 }, work: { longest: '20s' } }))).toBeNull();
});
