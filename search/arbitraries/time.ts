import fc from 'fast-check';

const UNITS_US = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/** The greatest of the usual units of which a time is a multiple, µs: 1 s, 100 ms and so on down to 1 µs. */
export function roundness(us: number): number {
  return UNITS_US.find((unit) => us % unit === 0) ?? 1;
}

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
    return fc.stream(this.simpler(value)).map((simpler) => new fc.Value(simpler, undefined));
  }

  private *simpler(value: number): IterableIterator<number> {
    if (value === this.min) return;
    yield this.min;
    const own = roundness(value);
    const tried = new Set([this.min]);
    for (const unit of UNITS_US) {
      if (unit <= own) break;
      const down = Math.floor(value / unit) * unit;
      for (const rounder of this.later ? [down, down + unit] : [down]) {
        if (rounder <= this.min || tried.has(rounder)) continue;
        tried.add(rounder);
        yield rounder;
      }
    }
    const half = Math.floor((this.min + (value - this.min) / 2) / own) * own;
    if (half > this.min && !tried.has(half)) yield half;
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
  private readonly size: TimeArbitrary;

  constructor(max: number) {
    super();
    this.max = max;
    this.size = new TimeArbitrary(0, max, false);
  }

  override generate(mrng: fc.Random): fc.Value<number> {
    return new fc.Value(mrng.nextInt(-this.max, this.max), undefined);
  }

  override canShrinkWithoutContext(value: unknown): value is number {
    return Number.isSafeInteger(value);
  }

  override shrink(value: number): fc.Stream<fc.Value<number>> {
    if (value >= 0) return this.size.shrink(value);
    return this.size.shrink(-value).map(({ value: simpler }) => new fc.Value(0 - simpler, undefined));
  }
}

/** Microseconds from -`max` to `max`, shrinking to round values towards 0. */
export function shift(max: number): fc.Arbitrary<number> {
  return new ShiftArbitrary(max);
}
