import { describe, expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { lock, type Parts, story, trace } from './testing/schedule.js';

/** Three nodes; c1 and then c2 hold the lock for a second. */
function parts(change: Parts = {}): Parts {
  return {
    ...change,
    cluster: { nodes: 3, ...change.cluster },
    policy: { ...change.policy, settings: { fencing: true, tries: 1, ...change.policy?.settings } },
    locks: [[lock(0, { holdUs: 1_000_000 })], [lock(2_000_000, { holdUs: 1_000_000 })], [lock(4_000_000)]],
    untilUs: 6_000_000,
  };
}

/** The counters of the fencing tokens, in order of the claims. */
function claims(change: Parts = {}): string[] {
  return trace(parts(change))
    .filter(({ kind }) => kind === 'claim')
    .map(({ process, detail }) => `${process} ${detail.counter}`);
}

/** What one node's counter was set to, and when. */
function counter(node: string, change: Parts = {}): string[] {
  return trace(parts(change))
    .filter(({ kind, process }) => kind === 'counter-set' && process === node)
    .map(({ atUs, detail }) => `${atUs} ${detail.counter}`);
}

const crash = (node: string, restartAfterUs = 0): Fault => ({ kind: 'crash', node, atUs: 1_500_000, restartAfterUs });
const AMNESIA = 2 ** 20;

describe('fencing counters', () => {
  it('cost two round trips, and rise with every holder', () => {
    expect(story(parts(), 'claim')).toEqual(['6000 c1 claim', '2006000 c2 claim', '4006000 c3 claim']);
    expect(claims()).toEqual(['c1 1', 'c2 2', 'c3 3']);
    expect(counter('n0')).toEqual(['5000 1', '2005000 2', '4005000 3']);
    expect(claims({ policy: { settings: { fencing: false } } })).toEqual([
      'c1 undefined',
      'c2 undefined',
      'c3 undefined',
    ]);
    expect(counter('n0', { policy: { settings: { fencing: false } }, faults: [crash('n0')] })).toEqual([]);
  });

  it('of a node that comes back empty count again from above what the others know', () => {
    const faults = [crash('n0')];
    expect(claims({ faults })).toEqual(['c1 1', 'c2 2', `c3 ${AMNESIA + 3}`]);
    expect(counter('n0', { faults }).slice(0, 3)).toEqual(['5000 1', '1500000 -1', `2007000 ${AMNESIA + 2}`]);
  });

  it('of nodes that come back empty are of no use while too few others have theirs', () => {
    const faults = [crash('n0'), crash('n1')];
    expect(claims({ faults })).toEqual(['c1 1']);
    expect(claims({ faults, policy: { deviations: ['counter-from-zero'] } })).toEqual(['c1 1', 'c2 1', 'c3 2']);
  });

  it('do not begin again where every node has lost its own: nobody gets a token any more, and is told so', () => {
    const faults = ['n0', 'n1', 'n2'].map((node) => crash(node));
    expect(claims({ faults })).toEqual(['c1 1']);
    const failures = trace(parts({ faults })).filter(({ kind }) => kind === 'acquire-failed');
    expect(failures.map(({ process, detail }) => `${process} ${detail.reason}`)).toEqual([
      'c2 counters-lost',
      'c3 counters-lost',
    ]);
  });

  const power: Fault = { kind: 'crash', node: 'n0', atUs: 500_000, power: true, restartAfterUs: 0 };

  it.each(['always', 'everysec'] as const)(
    'of an earlier process are none, whatever the disk has kept: %s',
    (persistence) => {
      const copied = ['5000 1', '500000 -1', `2007000 ${AMNESIA + 2}`, `4005000 ${AMNESIA + 3}`];
      expect(counter('n0', { cluster: { persistence }, faults: [power] })).toEqual(copied);
    },
  );

  it('are what the disk has kept under the policy that goes by that', () => {
    const kept = ['5000 1', '2005000 2', '4005000 3'];
    const policy = { deviations: ['counter-kept'] } as const;
    expect(counter('n0', { policy, cluster: { persistence: 'always' }, faults: [power] })).toEqual(kept);
    const everysec = counter('n0', { policy, cluster: { persistence: 'everysec' }, faults: [power] });
    expect(everysec).toEqual(['5000 1', '500000 0', ...kept.slice(1)]);
  });

  it('are lost with all keys, and not with a single one', () => {
    const forget: Fault = { kind: 'data-loss', node: 'n0', atUs: 500_000 };
    expect(counter('n0', { faults: [forget] })[1]).toBe('500000 -1');
    expect(counter('n0', { faults: [{ ...forget, resource: 'a' }] })[1]).toBe('2005000 2');
  });

  it('of a replica are none, or those that had reached it', () => {
    const failover = (atUs: number): Fault => ({ kind: 'failover', node: 'n0', atUs });
    const cluster = { replicaLagUs: 100 };
    expect(counter('n0', { cluster, faults: [failover(5_150)] })[1]).toBe('5150 -1');
    const policy = { deviations: ['counter-kept'] } as const;
    expect(counter('n0', { policy, cluster, faults: [failover(5_050)] })[1]).toBe('5050 0');
    expect(counter('n0', { policy, cluster, faults: [failover(5_150)] })[1]).toBe('2005000 2');
  });
});
