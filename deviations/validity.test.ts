import { describe, expect, it } from 'vitest';
import { LONGEST_US, type LocalTime, localTime } from '../core/index.js';
import { ms } from '../core/testing/lock.js';
import { isEnough, Validity } from '../core/testing/validity.js';
import { driftAllowanceUs, lockPolicyOf, type Policy, policyWith, REFERENCE } from './index.js';

function deadlineOf(policy: Policy, from: LocalTime, now: LocalTime, ttlUs: number): LocalTime {
  return new Validity(lockPolicyOf(policy), from, now, ttlUs).deadline;
}

function validityOf(policy: Policy, from: LocalTime, now: LocalTime, ttlUs: number): number {
  return new Validity(lockPolicyOf(policy), from, now, ttlUs).leftUs;
}

function isValid(policy: Policy, leftUs: number): boolean {
  return isEnough(lockPolicyOf(policy), leftUs);
}

describe('the drift allowance', () => {
  it('is 1 % of the TTL and 2 ms, as the redis.io clients have it', () => {
    expect(driftAllowanceUs(REFERENCE, 10_000_000)).toBe(102_000);
    expect(driftAllowanceUs(REFERENCE, 100_000)).toBe(3_000);
  });

  it('is rounded up to whole milliseconds, never down', () => {
    expect(driftAllowanceUs(REFERENCE, 150_000)).toBe(4_000);
    expect(driftAllowanceUs(REFERENCE, 1_000)).toBe(3_000);
    expect(driftAllowanceUs(REFERENCE, 101_000)).toBe(4_000);
  });

  it('is rounded up to whole microseconds where whole milliseconds are not asked for', () => {
    const fine = policyWith({ deviations: ['drift-unrounded'] });
    expect(driftAllowanceUs(fine, 150_000)).toBe(3_500);
    expect(driftAllowanceUs(fine, 150_001)).toBe(3_501);
    expect(driftAllowanceUs(fine, 1_000_001)).toBe(12_001);
    // A millionth of a microsecond over 9 901.
    expect(driftAllowanceUs(policyWith({ settings: { driftPpm: 10_001 } }, fine), 990_001)).toBe(11_902);
  });

  it('adds validity where a policy has the sign wrong', () => {
    expect(
      driftAllowanceUs(
        policyWith({ settings: { driftPpm: 10_000, driftUs: 2_000 }, deviations: ['drift-added'] }),
        10_000_000,
      ),
    ).toBe(-102_000);
  });

  it('can be left out altogether', () => {
    expect(driftAllowanceUs(policyWith({ settings: { driftPpm: 0, driftUs: 0 } }), 10_000_000)).toBe(0);
  });

  it('is exact where the product of TTL and ppm is beyond exact integers', () => {
    const century = 100 * 365.25 * 86_400_000_000;
    expect(century * REFERENCE.settings.driftPpm).toBeGreaterThan(Number.MAX_SAFE_INTEGER);
    expect(driftAllowanceUs(REFERENCE, century)).toBe(century / 100 + 2_000);
    expect(
      driftAllowanceUs(policyWith({ settings: { driftPpm: 333_333 }, deviations: ['drift-unrounded'] }), 10 ** 15),
    ).toBe(333_333_000_002_000);
  });
});

describe('the deadline of a claim', () => {
  it('is T1 + TTL - D, which no delay enters', () => {
    for (const now of [5, 9_000]) expect(deadlineOf(REFERENCE, ms(5), ms(now), 10_000_000)).toBe(ms(9_903));
  });

  it('saturates for a TTL of a thousand years', () => {
    expect(deadlineOf(REFERENCE, ms(5), ms(7), 1_000 * 365.25 * 86_400_000_000)).toBe(LONGEST_US);
  });

  it('may lie before a clock that started below zero has reached it', () => {
    expect(deadlineOf(REFERENCE, localTime(-10_000_000), ms(0), 10_000_000)).toBe(-102_000);
  });

  it('is no later with stamps cut to milliseconds, if TTL - D is a whole number of them', () => {
    const cut = policyWith({ deviations: ['stamps-us:1000', 'deadline-stamps-us:1000'] });
    expect(deadlineOf(cut, localTime(5_999), localTime(7_001), 10_000_000)).toBe(9_903_000);
    expect(deadlineOf(cut, localTime(-1), localTime(0), 10_000_000)).toBe(9_897_000);
  });

  it('is cut where stamps are cut by little, too', () => {
    expect(
      deadlineOf(
        policyWith({ deviations: ['stamps-us:2', 'deadline-stamps-us:2'] }),
        localTime(5),
        localTime(7),
        10_000_000,
      ),
    ).toBe(9_898_004);
    expect(
      deadlineOf(
        policyWith({
          settings: { driftUs: 2 },
          deviations: ['drift-unrounded', 'stamps-us:2', 'deadline-stamps-us:2'],
        }),
        localTime(4),
        localTime(6),
        100,
      ),
    ).toBe(102);
    expect(
      validityOf(
        policyWith({ deviations: ['stamps-us:2', 'deadline-stamps-us:2'] }),
        localTime(5),
        localTime(6),
        10_000_000,
      ),
    ).toBe(9_897_998);
  });

  it('is the next whole stamp if it is not: what rounding the allowance up is for', () => {
    const cut = policyWith({ deviations: ['drift-unrounded', 'stamps-us:1000', 'deadline-stamps-us:1000'] });
    expect(deadlineOf(cut, ms(0), ms(2), 150_000)).toBe(147_000);
    expect(deadlineOf(policyWith({ deviations: ['drift-unrounded'] }), ms(0), ms(2), 150_000)).toBe(146_500);
  });
});

describe('a relative validity', () => {
  const relative = policyWith({ deviations: ['deadline-counted-after-us:0'] });

  it('that is counted at once and exactly ends when an absolute one does', () => {
    expect(deadlineOf(relative, ms(5), ms(7), 10_000_000)).toBe(deadlineOf(REFERENCE, ms(5), ms(7), 10_000_000));
  });

  it('gains what its owner waits before it counts', () => {
    const late = policyWith({ deviations: ['deadline-counted-after-us:106000'] });
    expect(deadlineOf(late, ms(5), ms(7), 10_000_000)).toBe(ms(9_903 + 106));
  });

  it('gains up to a millisecond if its two stamps are cut', () => {
    const cut = policyWith({ deviations: ['stamps-us:1000', 'deadline-counted-after-us:0'] });
    const gained = (from: number, now: number): number =>
      deadlineOf(cut, localTime(from), localTime(now), 10_000_000) - (from + 9_898_000);
    expect([gained(5_000, 7_999), gained(5_000, 7_000), gained(5_999, 7_000)]).toEqual([999, 0, -999]);
    expect(validityOf(cut, localTime(5_000), localTime(7_999), 10_000_000)).toBe(9_896_000);
  });

  it('counted in whole seconds can lose sight of all that went by', () => {
    const seconds = policyWith({ deviations: ['stamps-us:1000000', 'deadline-counted-after-us:0'] });
    expect(validityOf(seconds, ms(50), ms(950), 500_000)).toBe(493_000);
    expect(isValid(seconds, validityOf(seconds, ms(50), ms(950), 500_000))).toBe(true);
  });
});

describe('validity', () => {
  it.each([
    [[], [false, false, true]],
    [['zero-is-valid'], [false, true, true]],
    [['validity-unchecked'], [true, true, true]],
  ] as const)('with %j decides about -1, 0 and 1 µs left', (deviations, expected) => {
    expect([-1, 0, 1].map((left) => isValid(policyWith({ deviations }), left))).toEqual(expected);
  });

  it('must reach the least that was asked for, to the microsecond', () => {
    const demanding = policyWith({ settings: { minValidityUs: 1_000 } });
    expect([999, 1_000].map((left) => isValid(demanding, left))).toEqual([false, true]);
    expect(isValid(policyWith({ settings: { minValidityUs: 1_000 }, deviations: ['zero-is-valid'] }), 999)).toBe(false);
  });

  it('asks for no least validity where nothing is checked', () => {
    expect(isValid(policyWith({ settings: { minValidityUs: 1_000 }, deviations: ['validity-unchecked'] }), -1)).toBe(
      true,
    );
  });

  it('is not made valid by a negative least validity', () => {
    expect(isValid(policyWith({ settings: { minValidityUs: -5_000 } }), 0)).toBe(false);
  });
});
