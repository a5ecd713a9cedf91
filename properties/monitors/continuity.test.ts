import { describe, expect, it } from 'vitest';
import type { LockPlan } from '../../scenarios/index.js';
import { lock } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const policy = { deviations: ['extends-late', 'extends-missing'] } as const;

function extended(afterUs: number): LockPlan[] {
  return [lock(0, { extensions: [{ afterUs, ttlMs: 10_000 }] })];
}

describe('continuity', () => {
  it('is broken when another was granted the lock before it is extended, at the extension', () => {
    const other = [lock(10_001_000, { holdUs: 497_000 })];
    expect(found('continuity', { policy, locks: [extended(10_998_000), other] })).toEqual(['c2 c1 11002000']);
  });

  it('holds when the lock is only extended late', () => {
    expect(found('continuity', { policy, locks: [extended(10_998_000)] })).toEqual([]);
  });

  it('holds when another asked for it in between, and was refused', () => {
    expect(found('continuity', { policy, locks: [extended(5_000_000), [lock(1_000_000)]] })).toEqual([]);
  });

  it('holds when another had it before the grant, or gets it after the extension', () => {
    const before = [lock(0, { holdUs: 100_000 })];
    const mine = [lock(1_000_000, { holdUs: 6_000_000, extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] })];
    expect(found('continuity', { policy, locks: [mine, before, [lock(8_000_000)]] })).toEqual([]);
  });

  it('is about each resource', () => {
    const other = [lock(10_001_000, { holdUs: 497_000, resources: ['b'] })];
    expect(found('continuity', { policy, locks: [extended(10_998_000), other] })).toEqual([]);
  });
});
