import { describe, expect, it } from 'vitest';
import { forgetfulNodesTolerated } from '../core/index.js';
import { deviates, hasFencingTokens, type Policy, quorumOf, REFERENCE, votesWantedOf } from './index.js';

const upTo7 = [1, 2, 3, 4, 5, 6, 7];

function quorums(quorum: Policy['quorum']): number[] {
  return upTo7.map((nodes) => quorumOf({ ...REFERENCE, quorum }, nodes));
}

describe('the reference policy', () => {
  it('is the redis.io algorithm, and cannot be changed by accident', () => {
    expect(Object.isFrozen(REFERENCE)).toBe(true);
    expect(REFERENCE).toMatchObject({
      profile: 'reference',
      quorum: 'majority',
      sending: 'parallel',
      settle: 'early',
      validityFrom: 'attempt',
      validityCheck: 'positive',
      tokenScope: 'attempt',
      onlyIfAbsent: true,
      ownKeyGrants: false,
      cleanup: 'all',
      cleanupAfter: 'each-attempt',
      releaseChecksToken: true,
      releaseTo: 'all',
      extendCommand: 'own',
      extendQuorumOffset: 0,
      extendFrom: 'start',
      extendOnlyInTime: true,
    });
  });

  it('bounds what must be bounded: time-out, tries, extensions, and waits a random time between attempts', () => {
    expect(REFERENCE.nodeTimeoutUs).toBeGreaterThan(0);
    expect(REFERENCE.tries).toBeGreaterThan(0);
    expect(REFERENCE.maxExtensions).toBeGreaterThan(0);
    expect(REFERENCE.retryJitterUs).toBeGreaterThan(0);
    expect(REFERENCE.retryJitterUs).toBeLessThanOrEqual(REFERENCE.retryDelayUs);
  });
});

describe('the quorum', () => {
  it('is more than half of the nodes, so that two of them always meet', () => {
    expect(quorums('majority')).toEqual([1, 2, 2, 3, 3, 4, 4]);
    for (let nodes = 1; nodes <= 31; nodes++) expect(2 * quorumOf(REFERENCE, nodes)).toBeGreaterThan(nodes);
  });

  it('is at most half of the nodes under the policy that says so, but never nobody', () => {
    expect(quorums('half')).toEqual([1, 1, 1, 2, 2, 3, 3]);
  });

  it('needs 3 of 3 and 4 of 5 when it is computed in floating point, as redlock-php does', () => {
    expect(quorums('float-majority')).toEqual([1, 2, 3, 3, 4, 4, 5]);
  });

  it('is taken as given when it is a number', () => {
    expect(quorums(4)).toEqual([4, 4, 4, 4, 4, 4, 4]);
  });
});

describe('the votes wanted', () => {
  it.each([
    ['quorum', 3],
    ['all', 5],
    [1, 3],
    [3, 3],
    [4, 4],
    [5, 5],
    [9, 5],
  ] as const)('are, for %s of five nodes, %i: from the quorum to all', (votesWanted, expected) => {
    expect(votesWantedOf({ ...REFERENCE, votesWanted }, 5)).toBe(expected);
  });

  it.each(['quorum', 'all', 5] as const)('are never fewer than a quorum that is out of reach (%s)', (votesWanted) => {
    expect(votesWantedOf({ ...REFERENCE, quorum: 6, votesWanted }, 5)).toBe(6);
  });
});

describe('the tolerance for forgetful nodes', () => {
  it('is 0, 1, 2 of five nodes with 3, 4, 5 votes', () => {
    expect([3, 4, 5].map((votes) => forgetfulNodesTolerated(votes, 3, 5))).toEqual([0, 1, 2]);
  });

  it('is one higher for an even number of nodes, where two quorums share two', () => {
    expect([3, 4].map((votes) => forgetfulNodesTolerated(votes, 3, 4))).toEqual([1, 2]);
  });

  it('is none, not a negative number, when two quorums need not meet', () => {
    expect(forgetfulNodesTolerated(2, 2, 5)).toBe(0);
  });
});

describe('what a policy deviates in', () => {
  it('is asked by name, whatever its number', () => {
    const policy = { ...REFERENCE, quorum: 2, sending: 'sequential' } as const;
    expect([deviates(policy, 'quorum'), deviates(policy, 'asks-in-turn')]).toEqual([true, true]);
    expect(deviates(policy, 'half-quorum', 'asks-in-turn')).toBe(true);
    expect(deviates(policy, 'half-quorum', 'releases-in-turn')).toBe(false);
    expect(deviates(REFERENCE, 'quorum')).toBe(false);
  });

  it('is not asked by a name that nothing has', () => {
    expect(() => deviates(REFERENCE, 'half')).toThrow('there is no deviation half');
    expect(() => deviates(REFERENCE, 'half')).toThrow(RangeError);
  });

  it('includes tokens for fencing of any kind', () => {
    const kinds = ['none', 'quorum', 'counter-alone', 'plain-write', 'piggybacked-read', 'max', 'sum', 'min'] as const;
    const having = kinds.filter((fencing) => hasFencingTokens({ ...REFERENCE, fencing }));
    expect(having).toEqual(kinds.slice(1));
  });
});
