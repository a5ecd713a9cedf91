import { describe, expect, it } from 'vitest';
import { DEFAULT_SETTINGS, toleratedDataLoss } from '../core/index.js';
import { deviates, hasFencingTokens, policyPlus, policyWith, quorumOf, REFERENCE, votesWantedOf } from './index.js';

const upTo7 = [1, 2, 3, 4, 5, 6, 7];

function quorums(...deviations: string[]): number[] {
  return upTo7.map((nodes) => quorumOf(policyWith({ deviations }), nodes));
}

describe('the reference policy', () => {
  it('is the redis.io algorithm, and cannot be changed by accident', () => {
    expect(Object.isFrozen(REFERENCE)).toBe(true);
    expect(REFERENCE).toEqual({
      profile: 'reference',
      settings: DEFAULT_SETTINGS,
      deviations: [],
      habits: {
        nodesFrom: 'configured',
        clock: 'boot',
        tokenFrom: 'random',
        tokenPerProcess: false,
        beliefEnds: 'at-release',
      },
    });
  });

  it('bounds what must be bounded: time-out, tries, extensions, and waits a random time between attempts', () => {
    expect(REFERENCE.settings.nodeTimeoutUs).toBeGreaterThan(0);
    expect(REFERENCE.settings.tries).toBeGreaterThan(0);
    expect(REFERENCE.settings.maxExtensions).toBeGreaterThan(0);
    expect(REFERENCE.settings.retryJitterUs).toBeGreaterThan(0);
    expect(REFERENCE.settings.retryJitterUs).toBeLessThanOrEqual(REFERENCE.settings.retryDelayUs);
  });
});

describe('the quorum', () => {
  it('is more than half of the nodes, so that two of them always meet', () => {
    expect(quorums()).toEqual([1, 2, 2, 3, 3, 4, 4]);
    for (let nodes = 1; nodes <= 31; nodes++) expect(2 * quorumOf(REFERENCE, nodes)).toBeGreaterThan(nodes);
  });

  it('is at most half of the nodes under the policy that says so, but never nobody', () => {
    expect(quorums('half-quorum')).toEqual([1, 1, 1, 2, 2, 3, 3]);
  });

  it('needs 3 of 3 and 4 of 5 when it is computed in floating point, as redlock-php does', () => {
    expect(quorums('float-majority')).toEqual([1, 2, 3, 3, 4, 4, 5]);
  });

  it('is taken as given when it is a number', () => {
    expect(quorums('quorum:4')).toEqual([4, 4, 4, 4, 4, 4, 4]);
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
    expect(votesWantedOf(policyWith({ settings: { votesWanted } }), 5)).toBe(expected);
  });

  it.each(['quorum', 'all', 5] as const)('are never fewer than a quorum that is out of reach (%s)', (votesWanted) => {
    expect(votesWantedOf(policyWith({ settings: { votesWanted }, deviations: ['quorum:6'] }), 5)).toBe(6);
  });
});

describe('the tolerance for nodes with data loss', () => {
  it('is 0, 1, 2 of five nodes with 3, 4, 5 votes', () => {
    expect([3, 4, 5].map((votes) => toleratedDataLoss(votes, 3, 5))).toEqual([0, 1, 2]);
  });

  it('is one higher for an even number of nodes, where two quorums share two', () => {
    expect([3, 4].map((votes) => toleratedDataLoss(votes, 3, 4))).toEqual([1, 2]);
  });

  it('is none, not a negative number, when two quorums need not meet', () => {
    expect(toleratedDataLoss(2, 2, 5)).toBe(0);
  });
});

describe('a change of a policy', () => {
  const client = policyWith({ settings: { tries: 3 }, deviations: ['half-quorum'], habits: { clock: 'wall' } });

  it('leaves what it does not name', () => {
    expect(policyWith({}, client)).toEqual(client);
    expect(policyWith({ settings: { retryDelayUs: 1 } }, client)).toEqual({
      ...client,
      settings: { ...client.settings, retryDelayUs: 1 },
    });
  });

  it('replaces all deviations, or adds some', () => {
    expect(policyWith({ deviations: ['asks-in-turn'] }, client).deviations).toEqual(['asks-in-turn']);
    expect(policyPlus({ deviations: ['asks-in-turn'] }, client).deviations).toEqual(['half-quorum', 'asks-in-turn']);
    expect(policyPlus({ habits: { clock: 'boot' } }, client).deviations).toEqual(['half-quorum']);
    expect(policyPlus({ deviations: ['quorum:2'] }, client).deviations).toEqual(['quorum:2']);
    const scripts = policyWith({ deviations: ['sets-any', 'extends-any'] });
    expect(policyPlus({ deviations: ['extends-missing'] }, scripts).deviations).toEqual([
      'sets-any',
      'extends-missing',
    ]);
  });

  it('is refused where it names what there is not', () => {
    expect(() => policyWith({ deviations: ['half', 'quorum:2'] })).toThrow('there is no deviation half');
  });

  it('cannot be undone by accident', () => {
    for (const part of [client, client.settings, client.deviations, client.habits])
      expect(Object.isFrozen(part)).toBe(true);
  });
});

describe('what a policy deviates in', () => {
  it('is asked by name, whatever its number', () => {
    const policy = policyWith({ deviations: ['quorum:2', 'asks-in-turn'] });
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
    expect(hasFencingTokens(REFERENCE)).toBe(false);
    expect(hasFencingTokens(policyWith({ settings: { fencing: true } }))).toBe(true);
    expect(hasFencingTokens(policyWith({ deviations: ['fence-max', 'grants-count'] }))).toBe(true);
  });
});
