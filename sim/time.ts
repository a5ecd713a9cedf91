/**
 * True time: whole microseconds since the start of a run. It belongs to the world; no process is ever handed it, and
 * it does not mix with {@link LocalTime} of `core`.
 */
export type TrueTime = number & { readonly __time: 'true' };

/**
 * A true time from a number, µs. One that fits is a small integer to the engine as well, though it may be the difference of
 * two large numbers: where a field gets the one and then the other, all that was compiled for its objects is thrown away.
 */
export function trueTime(us: number): TrueTime {
  const small = us | 0;
  return (small === us ? small : us) as TrueTime;
}

/** `at` moved by `us` microseconds. */
export function after(at: TrueTime, us: number): TrueTime {
  return trueTime(at + us);
}

/** A chosen instant, which must not lie before `now`, nor at it if `strictly`: a choice about the past would not replay. */
export function inFuture(atUs: number, now: TrueTime, strictly: boolean): TrueTime {
  if (atUs < now || (strictly && atUs === now)) {
    throw new RangeError(`an adversary chose ${atUs} µs, but it is ${now} µs already`);
  }
  return trueTime(atUs);
}
