/**
 * The greatest whole number from `low` to `high` at which `holds`, which does so up to some point and not beyond. Throws
 * a `RangeError` if that point lies outside: a boundary that was not crossed was not measured.
 */
export function greatest(low: number, high: number, holds: (value: number) => boolean): number {
  if (!holds(low)) throw new RangeError(`does not hold even at ${low}`);
  if (holds(high)) throw new RangeError(`holds even at ${high}`);
  let inside = low;
  let outside = high;
  while (outside - inside > 1) {
    const middle = Math.floor((inside + outside) / 2);
    if (holds(middle)) inside = middle;
    else outside = middle;
  }
  return inside;
}

/** The least whole number from `low` to `high` at which `holds`, which does so from some point on. */
export function least(low: number, high: number, holds: (value: number) => boolean): number {
  return greatest(low, high, (value) => !holds(value)) + 1;
}
