import { describe, expect, it } from 'vitest';
import { lock } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const policy = { releaseChecksToken: false };

describe('release-own', () => {
  it('is broken when a late release deletes the key of the next holder, on each node', () => {
    const locks = [[lock(0, { holdUs: 10_998_000 })], [lock(10_500_000)]];
    expect(found('release-own', { policy, locks })).toEqual(Array(5).fill('c2 c1 11001000'));
    expect(found('release-own', { locks })).toEqual([]);
  });

  it('holds when the release comes to a node in the instant in which its own key is gone', () => {
    // Set at 1 ms for 10 s, which a node takes for over when its clock shows a millisecond more.
    const released = (atUs: number): string[] =>
      found('release-own', { policy, locks: [[lock(0, { holdUs: atUs - 1_000 - 2_000 })]] });
    expect(released(10_001_999)).toEqual([]);
    expect(released(10_002_000)).toEqual([]);
  });

  it('is broken by a SET that replaces the key of a holder', () => {
    const locks = [[lock(0)], [lock(5_000)]];
    expect(found('release-own', { policy: { onlyIfAbsent: false }, locks })).toEqual(Array(5).fill('c1 c2 6000'));
  });

  it('holds when keys expire or are forgotten', () => {
    expect(found('release-own', { faults: [{ kind: 'crash', node: 'n0', atUs: 5_000, restartAfterUs: 0 }] })).toEqual(
      [],
    );
  });
});
