import { describe, expect, it } from 'vitest';
import { LONGEST_US, localTime } from '../core/index.js';
import { Clock } from './clock.js';
import { trueTime } from './time.js';

const THIRTY_DAYS = 30 * 86_400_000_000;

/** ⌊us × (1 + ppm / 10⁶)⌋ in whole numbers of any size. */
function exactly(us: number, ppm: number): number {
  const product = BigInt(us) * BigInt(1_000_000 + ppm);
  return Number(product / 1_000_000n);
}

describe('a clock', () => {
  it('shows true time if nothing is wrong with it', () => {
    const clock = new Clock(0, 0);
    expect(clock.read(trueTime(123_456_789))).toBe(123_456_789);
    expect(clock.when(localTime(5_000), trueTime(0))).toBe(5_000);
  });

  it.each([-500_000, -5_126, -1, 1, 5_126, 333_333, 500_000])('is exact for 30 days at %i ppm', (ppm) => {
    const clock = new Clock(0, ppm);
    for (const passed of [0, 1, 2, 999_999, 1_000_000, 1_000_001, THIRTY_DAYS - 1, THIRTY_DAYS]) {
      expect(clock.read(trueTime(passed))).toBe(exactly(passed, ppm));
    }
  });

  it.each([
    [-500_000, 3_000_001, 6_000_002],
    [-1, 1_000_000, 1_000_002],
    [1, 1_000_001, 1_000_000],
    [500_000, 1, 1],
    [500_000, 2, 2],
    [500_000, 3, 2],
  ])('at %i ppm reaches %i after %i µs and not before', (ppm, local, passed) => {
    const clock = new Clock(0, ppm);
    expect(clock.when(localTime(local), trueTime(0))).toBe(passed);
    expect(clock.read(trueTime(passed))).toBeGreaterThanOrEqual(local);
    expect(clock.read(trueTime(passed - 1))).toBeLessThan(local);
  });

  it('never answers with the past', () => {
    const clock = new Clock(1_000, 0);
    expect(clock.when(localTime(500), trueTime(0))).toBe(0);
    expect(clock.when(localTime(1_500), trueTime(2_000))).toBe(2_000);
  });

  it('jumps both ways and runs on from there', () => {
    const clock = new Clock(0, 0);
    clock.step(trueTime(1_000), 106_000);
    expect(clock.read(trueTime(1_000))).toBe(107_000);
    clock.step(trueTime(2_000), -200_000);
    expect(clock.read(trueTime(2_000))).toBe(-92_000);
    expect(clock.read(trueTime(94_000))).toBe(0);
    expect(clock.when(localTime(0), trueTime(2_000))).toBe(94_000);
    expect(clock.changedAt).toBe(2_000);
  });

  it('shows the same right after a change of rate as right before', () => {
    const clock = new Clock(0, 500_000);
    clock.setRate(trueTime(1_000), -500_000);
    expect(clock.read(trueTime(1_000))).toBe(1_500);
    expect(clock.read(trueTime(1_002))).toBe(1_501);
    expect(clock.rate).toBe(-500_000);
  });

  it('never gets to the longest time there is', () => {
    for (const ppm of [-500_000, 0, 500_000]) {
      expect(new Clock(0, ppm).when(localTime(LONGEST_US), trueTime(0))).toBe(LONGEST_US);
      expect(new Clock(-1_000, ppm).when(localTime(LONGEST_US), trueTime(5))).toBe(LONGEST_US);
    }
  });
});

describe('a clock that stops', () => {
  it('shows one time until it goes on, and every timer is as much later', () => {
    const clock = new Clock(100, 500_000);
    clock.stop(trueTime(1_000), trueTime(3_000));
    expect([1_000, 2_999, 3_000, 3_001, 3_002].map((at) => clock.read(trueTime(at)))).toEqual([
      1_600, 1_600, 1_600, 1_601, 1_603,
    ]);
    expect(clock.when(localTime(1_603), trueTime(1_000))).toBe(3_002);
    expect(clock.when(localTime(1_600), trueTime(2_000))).toBe(2_000);
    expect(clock.changedAt).toBe(1_000);
  });

  it('can be set and slewed meanwhile, and stays stopped until the last stop is over', () => {
    const clock = new Clock(0, 0);
    clock.stop(trueTime(1_000), trueTime(3_000));
    clock.step(trueTime(1_500), 7);
    clock.setRate(trueTime(1_600), -500_000);
    clock.stop(trueTime(2_000), trueTime(2_500));
    expect([2_999, 3_000, 3_002].map((at) => clock.read(trueTime(at)))).toEqual([1_007, 1_007, 1_008]);
    clock.stop(trueTime(4_000), trueTime(5_000));
    expect([4_500, 5_002].map((at) => clock.read(trueTime(at)))).toEqual([1_507, 1_508]);
  });
});
