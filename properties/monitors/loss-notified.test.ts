import { describe, expect, it } from 'vitest';
import type { Fault } from '../../scenarios/index.js';
import { lock, unreached } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const policy = { deviations: ['extends-missing'] } as const;
const locks = [[lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] })]];
const crash = (atUs: number): Fault => ({ kind: 'crash', node: 'n2', atUs, restartAfterUs: 0 });

describe('loss-notified', () => {
  it('is broken when a lock that lost its majority is extended as if nothing had happened', () => {
    const fates = unreached('c1', 'n3', 'n4');
    expect(found('loss-notified', { locks, policy, fates, faults: [crash(3_000)] })).toEqual(['c1 5004000']);
  });

  it('holds when the owner is told, because too few nodes have its key', () => {
    expect(found('loss-notified', { locks, fates: unreached('c1', 'n3', 'n4'), faults: [crash(3_000)] })).toEqual([]);
  });

  it('holds when a majority is left', () => {
    expect(found('loss-notified', { locks, policy, fates: unreached('c1', 'n4'), faults: [crash(3_000)] })).toEqual([]);
  });

  it('holds when the majority is lost as the claim ends, and breaks when it is lost just before', () => {
    const late = { deviations: ['extends-missing', 'extends-late'] };
    const after = [[lock(0, { extensions: [{ afterUs: 9_900_000, ttlMs: 10_000 }] })]];
    const fates = unreached('c1', 'n3', 'n4');
    expect(found('loss-notified', { locks: after, policy: late, fates, faults: [crash(9_898_000)] })).toEqual([]);
    const before = { locks: after, policy: late, fates, faults: [crash(9_897_999)] };
    expect(found('loss-notified', before)).toEqual(['c1 9904000']);
  });
});
