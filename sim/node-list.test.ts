import { describe, expect, it } from 'vitest';
import { members, type NodeSet, oneNode, union } from '../core/index.js';
import type { Fault } from '../scenarios/index.js';
import { NodeList } from './node-list.js';
import { lock, type Parts, story, trace } from './testing/schedule.js';

const set = (...nodes: number[]): NodeSet => nodes.map(oneNode).reduce(union);

describe('a list of nodes', () => {
  it('is the whole cluster if nothing is said', () => {
    const list = new NodeList(5);
    expect([list.places, list.distinct, list.majority, list.repeats]).toEqual([5, 5, 3, false]);
    expect(members(list.at(set(1, 4)))).toEqual([1, 4]);
    expect(list.countOf(set(0, 2))).toBe(2);
  });

  it('may leave nodes out, and have them in another order', () => {
    const list = new NodeList(7, ['n6', 'n2', 'n4']);
    expect([list.places, list.distinct, list.majority, list.repeats]).toEqual([3, 3, 2, false]);
    expect(members(list.at(set(0, 1)))).toEqual([2, 6]);
    expect(list.countOf(set(0, 1, 2))).toBe(1);
  });

  it('may name one twice: two places, one node', () => {
    const list = new NodeList(3, ['n0', 'n0', 'n1']);
    expect([list.places, list.distinct, list.majority, list.repeats]).toEqual([3, 2, 2, true]);
    expect(members(list.at(set(0, 1)))).toEqual([0]);
    expect(list.countOf(set(0, 2))).toBe(2);
  });
});

/** Who sends to whom, in order. */
function sends(parts: Parts): string[] {
  return trace(parts)
    .filter(({ kind, process }) => (kind === 'send' || kind === 'lost') && process.startsWith('c'))
    .map(({ atUs, detail }) => `${atUs} ${detail.client} ${detail.operation} ${detail.node}`);
}

describe('a client', () => {
  it('goes to the nodes of its list, in its order', () => {
    const parts: Parts = { views: [{ nodes: ['n4', 'n2'] }], untilUs: 1 };
    expect(sends(parts)).toEqual(['0 c1 acquire n4', '0 c1 acquire n2']);
  });

  it('has votes of nodes, whatever their places', () => {
    const claim = trace({ views: [{ nodes: ['n4', 'n2', 'n1'] }] }).find(({ kind }) => kind === 'claim');
    expect(claim?.detail).toMatchObject({ granted: set(4, 2), votes: 2, quorum: 2, nodes: 3 });
  });

  it('sends to a node that it has twice two times, each with a fate of its own', () => {
    const views = [{ nodes: ['n0', 'n0'] }];
    const address = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request' } as const;
    const parts: Parts = { views, fates: [{ ...address, send: 1, delayUs: 9_000 }], untilUs: 10_000 };
    expect(story(parts, 'execute')).toEqual(['1000 n0 execute', '9000 n0 execute']);
  });

  it('keeps the list that it had when it asked for the lock, and goes by the new one afterwards', () => {
    const parts: Parts = {
      views: [{ nodes: ['n0'] }],
      locks: [[lock(0, { holdUs: 10_000 }), lock(20_000)]],
      faults: [{ kind: 'reconfigure', atUs: 5_000, client: 'c1', nodes: ['n1'] }],
      untilUs: 21_000,
    };
    expect(sends(parts)).toEqual(['0 c1 acquire n0', '12000 c1 release n0', '20000 c1 acquire n1']);
  });

  it('with a prefix has keys that nobody else has', () => {
    const claims = (keyPrefix: string): string[] =>
      story(
        { locks: [[lock(0)], [lock(5_000)]], views: [{ keyPrefix }, { keyPrefix: 'y:' }], untilUs: 9_000 },
        'claim',
      );
    expect(claims('x:')).toEqual(['2000 c1 claim', '7000 c2 claim']);
    expect(claims('y:')).toEqual(['2000 c1 claim']);
  });
});

describe('a replica that is a node of its own', () => {
  const cluster = { nodes: 2, replicaLagUs: 500 };
  const keys = (parts: Parts): string[] =>
    story({ cluster, views: [{ nodes: ['n0'] }], ...parts }, 'key-set', 'key-gone');

  it('takes over with what has reached it, and by its own clock', () => {
    const takeOver = (lagUs?: number): Fault[] => [
      { kind: 'failover', atUs: 1_600, node: 'n0', to: 'n1', ...(lagUs === undefined ? {} : { lagUs }) },
    ];
    const gone = ['10002000 n0 key-gone'];
    expect(keys({ faults: takeOver() })).toEqual([
      '1000 n0 key-set',
      '1600 n1 key-set',
      ...gone,
      '10002000 n1 key-gone',
    ]);
    expect(keys({ faults: takeOver(601) })).toEqual(['1000 n0 key-set', ...gone]);
    const clocks = [{ process: 'n1', offsetUs: 2_000_000, ratePpm: 0 }];
    expect(keys({ cluster: { ...cluster, clocks }, faults: takeOver() })).toEqual([
      '1000 n0 key-set',
      '1600 n1 key-set',
      '8002000 n1 key-gone',
      ...gone,
    ]);
  });

  it('does not take over while it is down', () => {
    const faults: Fault[] = [
      { kind: 'crash', atUs: 0, node: 'n1', restartAfterUs: null },
      { kind: 'failover', atUs: 2_000, node: 'n0', to: 'n1' },
    ];
    expect(keys({ faults, untilUs: 9_000 })).toEqual(['1000 n0 key-set']);
  });
});
