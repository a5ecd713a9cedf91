import fc from 'fast-check';

const UNITS_US = [1_000_000, 100_000, 10_000, 1_000, 100, 10];

/**
 * Whole microseconds between `min` and `max` that shrink to round numbers: to `min`, then to whole seconds, hundreds of
 * milliseconds and so on down, and towards `min` by halves. Can shrink values it did not generate, also
 * greater ones than `max`: one that it did not take would keep the whole schedule from shrinking.
 */
export class TimeArbitrary extends fc.Arbitrary<number> {
  private readonly min: number;
  private readonly max: number;

  constructor(min: number, max: number) {
    super();
    this.min = min;
    this.max = max;
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
    const tried = new Set([value, this.min]);
    const half = this.min + (value - this.min) / 2;
    for (const unit of UNITS_US) {
      for (const candidate of [Math.floor(half / unit) * unit, Math.floor(value / unit) * unit]) {
        if (candidate <= this.min || tried.has(candidate)) continue;
        tried.add(candidate);
        yield candidate;
      }
    }
    const less = Math.floor(half);
    if (!tried.has(less)) yield less;
  }
}

/** Microseconds from 0 (or `min`) to `max`, shrinking to round values. */
export function time(max: number, min = 0): fc.Arbitrary<number> {
  return new TimeArbitrary(min, max);
}

/** Whole microseconds either way that shrink to 0 as {@link TimeArbitrary} does. */
class ShiftArbitrary extends fc.Arbitrary<number> {
  private readonly max: number;
  private readonly size: TimeArbitrary;

  constructor(max: number) {
    super();
    this.max = max;
    this.size = new TimeArbitrary(0, max);
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
