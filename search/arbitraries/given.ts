import fc from 'fast-check';

/** Always generates one value, and leaves any other that comes in from outside as it is: what shrinking must not touch. */
class GivenArbitrary<T> extends fc.Arbitrary<T> {
  private readonly value: T;

  constructor(value: T) {
    super();
    this.value = value;
  }

  override generate(): fc.Value<T> {
    return new fc.Value(this.value, undefined);
  }

  override canShrinkWithoutContext(value: unknown): value is T {
    return value !== undefined;
  }

  override shrink(): fc.Stream<fc.Value<T>> {
    return fc.Stream.nil();
  }
}

/** {@link GivenArbitrary} */
export function given<T>(value: T): fc.Arbitrary<T> {
  return new GivenArbitrary(value);
}

/** Generates what another arbitrary does, and leaves every value as it is. */
class KeptArbitrary<T> extends fc.Arbitrary<T> {
  private readonly inner: fc.Arbitrary<T>;

  constructor(inner: fc.Arbitrary<T>) {
    super();
    this.inner = inner;
  }

  override generate(mrng: fc.Random, biasFactor: number | undefined): fc.Value<T> {
    return new fc.Value(this.inner.generate(mrng, biasFactor).value, undefined);
  }

  override canShrinkWithoutContext(value: unknown): value is T {
    return value !== undefined;
  }

  override shrink(): fc.Stream<fc.Value<T>> {
    return fc.Stream.nil();
  }
}

/** {@link KeptArbitrary} */
export function kept<T>(inner: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return new KeptArbitrary(inner);
}
