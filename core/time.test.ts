import { describe, expect, expectTypeOf, it } from 'vitest';
import { LONGEST_US, type LocalTime, later, localTime } from './time.js';

describe('local time', () => {
  it('moves both ways by exact microseconds', () => {
    expect(later(localTime(1_000), 1)).toBe(1_001);
    expect(later(localTime(1_000), -1_001)).toBe(-1);
  });

  it('saturates at the longest duration instead of losing exactness', () => {
    expect(later(localTime(LONGEST_US), 0)).toBe(LONGEST_US);
    expect(later(localTime(LONGEST_US - 1), 1)).toBe(LONGEST_US);
    expect(later(localTime(LONGEST_US), 1)).toBe(LONGEST_US);
    expect(later(localTime(0), 1_000 * 365.25 * 86_400_000_000)).toBe(LONGEST_US);
    expect(later(localTime(-LONGEST_US), -1)).toBe(-LONGEST_US);
    expect(later(localTime(-LONGEST_US), 0)).toBe(-LONGEST_US);
  });

  it('leaves room for the difference of any two readings in an exact integer', () => {
    expect(Number.isSafeInteger(LONGEST_US + LONGEST_US - 1)).toBe(true);
  });

  it('does not compile where a plain number is meant to be a local time', () => {
    expectTypeOf<number>().not.toExtend<LocalTime>();
    expectTypeOf<LocalTime>().toExtend<number>();
    expectTypeOf(later).parameter(0).toEqualTypeOf<LocalTime>();
    expectTypeOf(later).returns.toEqualTypeOf<LocalTime>();
    // @ts-expect-error a plain number says nothing about whose clock it was read from
    later(1_000, 1);
    // @ts-expect-error the sum of a reading and a number is a number: only `later` keeps the brand
    const drifted: LocalTime = localTime(1_000) + 1;
    // @ts-expect-error a time with another brand, such as true time, is not local time
    const ofTheWorld: LocalTime = 1_000 as number & { readonly __time: 'true' };
    expect([drifted, ofTheWorld]).toEqual([1_001, 1_000]);
  });
});
