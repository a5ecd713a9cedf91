import { parseDuration } from './duration.js';
import { InputError, show } from './input-error.js';
import { meant } from './nearest.js';

/** What `meanings` has for `value`. */
export function oneOf<const T>(value: string, meanings: Readonly<Record<string, T>>): T {
  const meaning = Object.hasOwn(meanings, value) ? meanings[value] : undefined;
  if (meaning !== undefined) return meaning;
  throw new InputError(`${show(value)} is not one of its values; ${meant(value, Object.keys(meanings), 'they are')}`);
}

/** A whole number from `low` to `high`; `words` may be given instead. */
export function integer(value: string, low: number, high: number, ...words: readonly string[]): number {
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (number >= low && number <= high) return number;
  const others = words.map((word) => `, or ${word}`).join('');
  throw new InputError(`${show(value)} is not a whole number from ${low} to ${high}${others}`);
}

/** A share in percent from 0 to 100, the sign left out or not; in parts per million. */
export function percent(value: string): number {
  const [, whole, fraction = ''] = /^(\d+)(?:\.(\d{1,4}))?%?$/.exec(value) ?? [];
  const ppm = Number(whole) * 10_000 + Number(fraction.padEnd(4, '0'));
  if (whole !== undefined && ppm <= 1_000_000) return ppm;
  throw new InputError(`${show(value)} is not a percentage from 0 to 100 with at most 4 decimals; write it like 1%`);
}

/** A duration of whole milliseconds, at least one. */
export function wholeMs(value: string): number {
  const us = parseDuration(value);
  if (us >= 1000 && us % 1000 === 0) return us / 1000;
  throw new InputError(`${show(value)} is not a whole number of milliseconds from 1 up; write it like 10s or 50ms`);
}
