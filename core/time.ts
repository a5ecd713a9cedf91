/**
 * Time as one process reads it: whole microseconds on that process's own clock, from an arbitrary origin.
 * True time (the world's) is another type, in `sim`; mixing the two does not compile.
 */
export type LocalTime = number & { readonly __time: 'local' };

/** Durations are whole microseconds and never exceed this (about 142 years), so that sums stay exact integers. */
export const LONGEST_US: number = 2 ** 52;

/** Marks a whole number of microseconds as a reading of a process's clock. Only drivers do this. */
export function localTime(us: number): LocalTime {
  return us as LocalTime;
}

/** `at` moved by `us` microseconds, saturating at ±{@link LONGEST_US}. */
export function later(at: LocalTime, us: number): LocalTime {
  const sum = at + us;
  if (sum > LONGEST_US) return LONGEST_US as LocalTime;
  return (sum < -LONGEST_US ? -LONGEST_US : sum) as LocalTime;
}
