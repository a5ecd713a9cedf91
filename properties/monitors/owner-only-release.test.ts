import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../bench/oracle/agreement.js';
import type { Fate } from '../../scenarios/index.js';
import { lock, type Parts, schedule } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const policy = { deviations: ['deletes-any'] };

describe('owner-only-release', () => {
  it('is broken when a late release deletes the key of the next holder, on each node', () => {
    const locks = [[lock(0, { holdUs: 10_998_000 })], [lock(10_500_000)]];
    expect(found('owner-only-release', { policy, locks })).toEqual(Array(5).fill('c2 c1 11001000'));
    expect(found('owner-only-release', { locks })).toEqual([]);
  });

  it('holds when the release comes to a node in the instant in which its own key is gone', () => {
    // Set at 1 ms for 10 s, which a node takes for over when its clock shows a millisecond more.
    const released = (atUs: number): string[] =>
      found('owner-only-release', { policy, locks: [[lock(0, { holdUs: atUs - 1_000 - 2_000 })]] });
    expect(released(10_001_999)).toEqual([]);
    expect(released(10_002_000)).toEqual([]);
  });

  it('is broken by a SET that replaces the key of a holder', () => {
    const locks = [[lock(0)], [lock(5_000)]];
    expect(found('owner-only-release', { policy: { deviations: ['sets-any'] }, locks })).toEqual(
      Array(5).fill('c1 c2 6000'),
    );
  });

  it('is broken by the clean-up of a lock that has the same token, and not by the release of the lock that set the key', () => {
    // c2 asks in the same microsecond, finds the keys of c1, gives up at 2 ms, and deletes what is under its token.
    const locks = [[lock(0, { holdUs: 5_000 })], [lock(0)]];
    const parts = { policy: { settings: { tries: 1 }, habits: { tokenFrom: 'clock-us' } } as const, locks };
    expect(found('owner-only-release', parts)).toEqual(Array(5).fill('c1 c2 3000'));
    expect(found('owner-only-release', { ...parts, locks: [[lock(0, { holdUs: 5_000 })], [lock(1)]] })).toEqual([]);
    expect(disagreementOn(schedule(parts))).toBeNull();
  });

  it('is broken by a late release of one lock that deletes the key of the next, both with the token of their client', () => {
    const policy = { deviations: ['token-per-call'], habits: { tokenPerProcess: true } } as const;
    const release: Fate = { client: 'c1', operation: 'release', node: 'n0', direction: 'request', delayUs: 20_000 };
    const locks = [[lock(0, { holdUs: 5_000 }), lock(10_000)]];
    const lost: Fate = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request', lost: true };
    // The first SET never comes to n0, the second sets the key there at 11 ms, the release comes at 27 ms.
    const parts: Parts = { policy, locks, fates: [lost, release], cluster: { link: 'reordering' } };
    expect(found('owner-only-release', parts)).toEqual(['c1 c1 27000']);
    expect(found('owner-only-release', { ...parts, policy: {} })).toEqual([]);
    expect(disagreementOn(schedule(parts))).toBeNull();
  });

  it('holds when keys expire or are forgotten', () => {
    expect(
      found('owner-only-release', { faults: [{ kind: 'crash', node: 'n0', atUs: 5_000, restartAfterUs: 0 }] }),
    ).toEqual([]);
  });
});
