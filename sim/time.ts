/**
 * True time: whole microseconds since the start of a run. It belongs to the world; no process is ever handed it, and
 * it does not mix with {@link LocalTime} of `core`.
 */
export type TrueTime = number & { readonly __time: 'true' };

export function trueTime(us: number): TrueTime {
  return us as TrueTime;
}

/** `at` moved by `us` microseconds. */
export function after(at: TrueTime, us: number): TrueTime {
  return (at + us) as TrueTime;
}
