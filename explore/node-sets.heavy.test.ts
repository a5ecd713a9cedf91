import { describe, expect, it } from 'vitest';
import { parseSchedule } from '../scenarios/index.js';
import { DEFAULT_SCOPE, type ExploreScope, type NodeSetChange } from './bounds.js';
import { scheduleOf } from './counterexample.js';
import { exploring, replayed } from './testing/exploring.js';

/** Two clients that are told of these nodes, in the smallest world in which a lock is held for more than a tick. */
function told(sets: NodeSetChange['sets'], change: Partial<NodeSetChange> = {}): Partial<ExploreScope> {
  const nodes = Math.max(...sets.flat()) + 1;
  return { nodes, ttl: 2, clients: sets.length, change: { sets, wait: null, off: [], drained: false, ...change } };
}

const ONE_REPLACED = [
  [0, 1, 2],
  [0, 1, 3],
];

describe('clients with other nodes', () => {
  it.each([
    ['one of three is replaced', told(ONE_REPLACED)],
    [
      'three become five',
      told([
        [0, 1, 2],
        [0, 1, 2, 3, 4],
      ]),
    ],
    ['drained for a tick too little', told(ONE_REPLACED, { wait: 1, drained: true })],
    ['the old node is off for a tick too little', told(ONE_REPLACED, { wait: 1, off: [2] })],
  ])('hold the lock at once if %s, which the simulator plays', (_, world) => {
    const found = exploring(world);
    expect(found.verdict).toBe('violated');
    expect(replayed(world, found)).toContain('mutual-exclusion');
  });

  it('hold it at once in ten steps, each with two of its own nodes', () => {
    const world = told(ONE_REPLACED);
    const { path, depth } = exploring(world);
    expect(depth).toBe(10);
    const { clients, cluster } = parseSchedule(scheduleOf({ ...DEFAULT_SCOPE, ...world }, path ?? []));
    expect(cluster.nodes).toBe(4);
    expect(clients.map(({ nodes }) => nodes)).toEqual([
      ['n0', 'n1', 'n2'],
      ['n0', 'n1', 'n3'],
    ]);
  });

  it('never do where both have the same, whatever these are called', () => {
    const same = told([
      [0, 1],
      [0, 1],
    ]);
    expect(exploring(same)).toMatchObject({ verdict: 'safe', exhausted: true });
    expect(exploring(same, { symmetry: false })).toMatchObject({ verdict: 'safe', exhausted: true });
  });

  it('never do where one of the two nodes of the old is off for a TTL before the new one asks', () => {
    const sets = [
      [0, 1],
      [0, 2],
    ];
    const world = (wait: number): Partial<ExploreScope> => told(sets, { wait, off: [1] });
    expect(exploring(world(2))).toMatchObject({ verdict: 'safe', exhausted: true });
  });
});

it.each([
  [{ sets: [[0, 1]] }, 'sets: there are 1 for 2 clients'],
  [
    {
      sets: [
        [0, 1],
        [0, 5],
      ],
    },
    'sets: 05 has to name some of the nodes 0 to 1, each once',
  ],
  [{ wait: 61 }, 'wait must be a whole number of ticks from 0 to 60, not 61'],
  [{ off: [1] }, 'has to say how long it waits'],
  [{ off: [7], wait: 0 }, 'off: only nodes 0 to 1 can be turned off'],
])('refuses a change such as %j', (change, said) => {
  const sets = [
    [0, 1],
    [0, 1],
  ];
  const world = { nodes: 2, change: { sets, wait: null, off: [], drained: false, ...change } };
  expect(() => exploring(world)).toThrow(said);
});
