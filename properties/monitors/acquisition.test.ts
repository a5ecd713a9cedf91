import { describe, expect, it } from 'vitest';
import { lock, unreached } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

describe('acquisition', () => {
  it('is broken by a claim with too few votes, at the claim', () => {
    const fates = unreached('c1', 'n2', 'n3', 'n4');
    expect(found('acquisition', { policy: { deviations: ['quorum:2'] }, fates })).toEqual(['c1 2000']);
    expect(found('acquisition', { policy: { deviations: ['quorum:3'] }, fates: unreached('c1', 'n3', 'n4') })).toEqual(
      [],
    );
  });

  it('is broken by a claim that ends later than its first command allows, and not by one that ends just then', () => {
    expect(found('acquisition', { policy: { deviations: ['counts-from-reply'] } })).toEqual(['c1 2000']);
    expect(found('acquisition')).toEqual([]);
    // All of the TTL is the most that any allowance can mean.
    expect(found('acquisition', { policy: { settings: { driftPpm: 0, driftUs: 0 } } })).toEqual([]);
    expect(
      found('acquisition', {
        policy: { settings: { driftPpm: 0, driftUs: 1 }, deviations: ['drift-unrounded', 'drift-constant-added'] },
      }),
    ).toEqual(['c1 2000']);
  });

  it('is broken by a claim of which nothing is left, and not by one with a little', () => {
    const slow = (ttlMs: number): string[] =>
      found('acquisition', {
        policy: { settings: { votesWanted: 'all' }, deviations: ['zero-is-valid'] },
        locks: [[lock(0, { ttlMs })]],
        fates: unreached('c1', 'n4'),
      });
    // The lost vote holds it up for the node time-out of 50 ms; 3 ms are given up for drift.
    expect(slow(53)).toEqual(['c1 50000']);
    expect(slow(54)).toEqual([]);
  });

  it('is broken by a claim with less validity than the policy wants', () => {
    const wanting = (minValidityUs: number): string[] =>
      found('acquisition', {
        policy: { settings: { driftPpm: 0, driftUs: 0, minValidityUs }, deviations: ['validity-unchecked'] },
      });
    expect(wanting(9_998_001)).toEqual(['c1 2000']);
    expect(wanting(9_998_000)).toEqual([]);
  });

  it('counts the votes of each of two locks with one token, and not those of the other', () => {
    const locks = [[lock(0, { resources: ['a'] }), lock(1_000, { resources: ['b'] })]];
    const votes = (...deviations: string[]): string[] =>
      found('acquisition', {
        policy: { deviations: ['token-per-call', ...deviations], habits: { tokenPerProcess: true } },
        locks,
      });
    expect(votes()).toEqual([]);
    expect(votes('quorum:2')).toEqual(['c1 2000', 'c1 3000']);
  });
});
