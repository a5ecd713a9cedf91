import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../../bench/oracle/agreement.js';
import type { Fate, Fault } from '../../../scenarios/index.js';
import { lock, type Parts, schedule } from '../../../sim/testing/schedule.js';
import { found } from '../../testing/found.js';

const tolerant = (parts: Parts): string[] => found('fault-tolerance', parts);

const dead = (node: string): Fault => ({ kind: 'crash', node, atUs: 0, restartAfterUs: null });
const hung = (node: string): Fault => ({ kind: 'pause', process: node, atUs: 0, forUs: 60_000_000 });
const refusing = (node: string): Fault => ({
  kind: 'error-replies',
  node,
  operations: ['acquire', 'extend', 'release'],
  atUs: 0,
  forUs: 60_000_000,
});
const cutOff = (node: string): Fault => ({
  kind: 'partition',
  atUs: 0,
  from: ['c1'],
  to: [node],
  oneWay: true,
  forUs: 60_000_000,
});

/** Four votes of five: more than a majority. */
const greedy: Parts = { policy: { settings: { tries: null }, deviations: ['quorum:4'] } };

describe('with a minority of the nodes out of order', () => {
  it.each([
    ['dead', dead],
    ['hung', hung],
    ['refusing', refusing],
    ['cut off', cutOff],
  ])('a client that keeps trying has its lock as soon as without: %s', (_, out) => {
    const faults = [out('n1'), out('n3')];
    expect(tolerant({ policy: { settings: { tries: null } }, faults })).toEqual([]);
    expect(tolerant({ ...greedy, faults })).toEqual(['c1 450000']);
    expect(tolerant({ ...greedy, faults: [out('n1')] })).toEqual([]);
  });

  it('no more is asked of it than that a majority is in order', () => {
    expect(tolerant({ ...greedy, faults: ['n0', 'n1', 'n2'].map(dead) })).toEqual([]);
  });

  it('it does not give up before its tries are used up', () => {
    expect(tolerant({ policy: { settings: { tries: 3 } }, faults: ['n0', 'n1', 'n2'].map(dead) })).toEqual([]);
  });
});

describe('a call', () => {
  it('without a time-out is over with its TTL, and the next begins after a pause', () => {
    const faults = ['n0', 'n1', 'n2'].map(hung);
    const locks = [[lock(0, { ttlMs: 1_000 })]];
    expect(tolerant({ policy: { settings: { nodeTimeoutUs: null } }, locks, faults })).toEqual(['c1 1300000']);
    expect(tolerant({ policy: { settings: { nodeTimeoutUs: null, tries: 1 } }, locks, faults })).toEqual([
      'c1 1000000',
    ]);
    expect(tolerant({ policy: { settings: { tries: 1 } }, locks, faults })).toEqual([]);
  });

  it('has its whole time again after its process was frozen', () => {
    const faults: Fault[] = [
      ...['n0', 'n1', 'n2'].map(hung),
      { kind: 'pause', process: 'c1', atUs: 400_000, forUs: 5_000 },
    ];
    const locks = [[lock(0, { ttlMs: 1_000 })]];
    expect(tolerant({ policy: { settings: { nodeTimeoutUs: null, tries: 1 } }, locks, faults })).toEqual([
      'c1 1405000',
    ]);
  });

  it('of a process that is started on a machine that is suspended has its time from when that goes on', () => {
    const parts: Parts = {
      cluster: { nodes: 1 },
      policy: { settings: { tries: 1 } },
      faults: [
        { kind: 'suspend', process: 'c1', atUs: 21_100_000, forUs: 300_000, stops: 'all' },
        { kind: 'client-crash', client: 'c1', atUs: 0, restartAfterUs: 21_300_000 },
      ],
      fates: [{ client: 'c1', operation: 'acquire', node: 'n0', direction: 'request', lost: true }],
    };
    expect(tolerant(parts)).toEqual([]);
    // Without time-outs a try has its TTL, from then on.
    const patient: Parts = { ...parts, policy: { settings: { tries: 1, nodeTimeoutUs: null } }, untilUs: 90_000_000 };
    expect(tolerant(patient)).toEqual(['c1 31400000']);
    for (const it of [parts, patient]) expect(disagreementOn(schedule(it))).toBeNull();
  });

  it('has its time by its own clock', () => {
    const faults = ['n0', 'n1', 'n2'].map(hung);
    const cluster = { clocks: [{ process: 'c1', offsetUs: 0, ratePpm: -500_000 }] };
    const parts: Parts = { cluster, locks: [[lock(0, { ttlMs: 1_000 })]], faults };
    expect(tolerant({ ...parts, policy: { settings: { tries: 2 } } })).toEqual([]);
    expect(tolerant({ ...parts, policy: { settings: { nodeTimeoutUs: null, tries: 1 } } })).toEqual(['c1 2000002']);
  });

  it('that releases is over after one time-out', () => {
    const locks = [[lock(0, { holdUs: 5_000 })]];
    const lost: Fate[] = ['n0', 'n1', 'n2'].map((node) => {
      return { client: 'c1', operation: 'release', node, direction: 'reply', lost: true };
    });
    expect(tolerant({ locks, fates: lost })).toEqual([]);
    expect(tolerant({ policy: { settings: { nodeTimeoutUs: null } }, locks, fates: lost })).toEqual(['c1 10007000']);
  });
});

describe('with fencing', () => {
  const fenced: Parts = { cluster: { nodes: 3 }, policy: { settings: { tries: null, fencing: true } } };
  const forgets = (node: string): Fault => ({ kind: 'data-loss', node, atUs: 0 });

  it('a try may take time for its counters, too', () => {
    const late: Fate[] = [
      { client: 'c1', operation: 'acquire', node: 'n1', direction: 'reply', delayUs: 40_000 },
      { client: 'c1', operation: 'read-counter', node: 'n1', direction: 'reply', delayUs: 40_000 },
    ];
    expect(tolerant({ ...fenced, faults: [dead('n2')], fates: late })).toEqual([]);
  });

  it('a node without a counter is out of order where it has to be given one, and only there', () => {
    const faults = [forgets('n0'), dead('n1')];
    expect(tolerant({ ...fenced, faults })).toEqual([]);
    const greedy3: Parts = { ...fenced, policy: { ...fenced.policy, deviations: ['quorum:3', 'counter-from-zero'] } };
    expect(tolerant({ ...greedy3, faults })).toHaveLength(1);
    expect(tolerant({ ...fenced, policy: { ...fenced.policy, deviations: ['counter-from-zero'] }, faults })).toEqual(
      [],
    );
  });
});

describe('with scripts that go by their hash', () => {
  // c1 finds n1 new, which has to ask for the text of each script: that takes a round trip more.
  const far = [
    { client: 'c1', node: 'n1', delayUs: 11_781 },
    { client: 'c1', node: 'n2', delayUs: 4_068 },
  ];
  const late: Fate[] = [
    { client: 'c1', attempt: 6, operation: 'read-counter', node: 'n1', direction: 'reply', send: 2, delayUs: 15_000 },
    { client: 'c1', attempt: 7, operation: 'raise-counter', round: 1, node: 'n1', direction: 'reply', delayUs: 13_570 },
    {
      client: 'c1',
      attempt: 7,
      operation: 'raise-counter',
      round: 1,
      node: 'n1',
      direction: 'request',
      send: 1,
      delayUs: 12_734,
    },
    {
      client: 'c1',
      attempt: 7,
      operation: 'raise-counter',
      round: 1,
      node: 'n1',
      direction: 'reply',
      send: 2,
      delayUs: 11_916,
    },
  ];

  it('two round trips of more than half a time-out are a disturbance', () => {
    const parts: Parts = {
      cluster: {
        nodes: 3,
        delayUs: 0,
        link: 'reordering',
        persistence: 'always',
        scripts: 'by-hash',
        distances: [
          ...far,
          { client: 'c2', node: 'n1', delayUs: 10_589 },
          { client: 'c2', node: 'n2', delayUs: 14_878 },
        ],
      },
      policy: { settings: { tries: null, fencing: true } },
      locks: [[lock(30_000, { ttlMs: 1_000 })], [lock(0, { ttlMs: 1_000 })]],
      faults: [
        { kind: 'pause', process: 'n0', atUs: 0, forUs: 3_000_000 },
        { kind: 'crash', node: 'n1', atUs: 900_000, restartAfterUs: 300_000 },
      ],
      fates: late,
    };
    expect(tolerant(parts)).toEqual([]);
  });

  it('a client that wants too many votes is told of all the same', () => {
    const faults = [dead('n1'), dead('n3')];
    expect(tolerant({ ...greedy, cluster: { scripts: 'by-hash' }, faults })).toEqual(['c1 450000']);
  });
});
