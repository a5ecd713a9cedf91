/**
 * True time: whole microseconds since the start of a run. It belongs to the world; no process is ever handed it, and
 * it does not mix with {@link LocalTime} of `core`.
 */
export type TrueTime = number & { readonly __time: 'true' };

/** A true time from a number, µs. */
export function trueTime(us: number): TrueTime {
  return us as TrueTime;
}

/** `at` moved by `us` microseconds. */
export function after(at: TrueTime, us: number): TrueTime {
  return (at + us) as TrueTime;
}

/** A chosen instant, which must not lie before `now`, nor at it if `strictly`: a choice about the past would not replay. */
export function inFuture(atUs: number, now: TrueTime, strictly: boolean): TrueTime {
  if (atUs < now || (strictly && atUs === now)) {
    throw new RangeError(`an adversary chose ${atUs} µs, but it is ${now} µs already`);
  }
  return trueTime(atUs);
}
