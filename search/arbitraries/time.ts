import fc from 'fast-check';
import { simplerShifts, simplerTimes } from './simpler.js';

/**
 * Whole microseconds between `min` and `max` that shrink to round numbers: to `min`, then to whole seconds, hundreds of
 * milliseconds and so on down, and towards `min` by halves that are as round. Every step makes the time rounder, or
 * shorter and as round. Can shrink values it did not generate, also greater ones than `max`: one that it did not take
 * would keep the whole schedule from shrinking.
 */
class TimeArbitrary extends fc.Arbitrary<number> {
  private readonly min: number;
  private readonly max: number;
  private readonly later: boolean;

  /** `later` rounds up as well: for instants, of which a later one is no longer than an earlier one. */
  constructor(min: number, max: number, later: boolean) {
    super();
    this.min = min;
    this.max = max;
    this.later = later;
  }

  override generate(mrng: fc.Random): fc.Value<number> {
    return new fc.Value(mrng.nextInt(this.min, this.max), undefined);
  }

  override canShrinkWithoutContext(value: unknown): value is number {
    return Number.isSafeInteger(value) && (value as number) >= this.min;
  }

  override shrink(value: number): fc.Stream<fc.Value<number>> {
    return fc.stream(simplerTimes(value, this.min, this.later)).map((simpler) => new fc.Value(simpler, undefined));
  }
}

/** Microseconds from 0 (or `min`) to `max`, shrinking to round values. */
export function time(max: number, min = 0): fc.Arbitrary<number> {
  return new TimeArbitrary(min, max, false);
}

/** An instant, µs from 0 to `max`, shrinking to round values before and behind it. */
export function instant(max: number): fc.Arbitrary<number> {
  return new TimeArbitrary(0, max, true);
}

/** Whole microseconds either way that shrink to 0 as {@link TimeArbitrary} does. */
class ShiftArbitrary extends fc.Arbitrary<number> {
  private readonly max: number;

  constructor(max: number) {
    super();
    this.max = max;
  }

  override generate(mrng: fc.Random): fc.Value<number> {
    return new fc.Value(mrng.nextInt(-this.max, this.max), undefined);
  }

  override canShrinkWithoutContext(value: unknown): value is number {
    return Number.isSafeInteger(value);
  }

  override shrink(value: number): fc.Stream<fc.Value<number>> {
    return fc.stream(simplerShifts(value)).map((simpler) => new fc.Value(simpler, undefined));
  }
}

/** Microseconds from -`max` to `max`, shrinking to round values towards 0. */
export function shift(max: number): fc.Arbitrary<number> {
  return new ShiftArbitrary(max);
}
