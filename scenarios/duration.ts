import { LONGEST_US } from '../core/index.js';
import { InputError } from './input-error.js';

const UNITS: ReadonlyMap<string, bigint> = new Map([
  ['us', 1n],
  ['µs', 1n],
  ['ms', 1_000n],
  ['s', 1_000_000n],
  ['m', 60_000_000n],
  ['min', 60_000_000n],
  ['h', 3_600_000_000n],
]);

const FORM = /^(\d+)(?:\.(\d+))?([a-zµ]*)$/;

/**
 * Reads a duration as a person writes it: a number and its unit (`10s`, `50ms`, `250us`, `1.5ms`, `2m`, `1h`), or `0`.
 *
 * @returns Whole microseconds.
 * @throws {@link InputError} if it is anything else, or not a whole number of microseconds.
 */
export function parseDuration(text: string): number {
  const form = FORM.exec(text.trim());
  if (form === null)
    throw new InputError(`${JSON.stringify(text)} is not a duration; write it like 10s, 50ms or 250us`);
  const [, whole = '', fraction = '', unit = ''] = form;
  if (unit === '' && /^0*$/.test(whole + fraction)) return 0;
  const scale = UNITS.get(unit);
  if (scale === undefined) {
    const wrong = unit === '' ? 'has no unit' : `has the unknown unit ${JSON.stringify(unit)}`;
    throw new InputError(`duration ${JSON.stringify(text)} ${wrong}; write it like 10s, 50ms or 250us`);
  }
  // In whole numbers, because 1.001 ms is 1000.9999999999999 µs in floating point.
  const scaled = BigInt(whole + fraction) * scale;
  const divisor = 10n ** BigInt(fraction.length);
  if (scaled % divisor !== 0n) {
    throw new InputError(
      `duration ${JSON.stringify(text)} is not a whole number of microseconds; the finest unit is us`,
    );
  }
  const us = scaled / divisor;
  if (us > BigInt(LONGEST_US)) {
    throw new InputError(`duration ${JSON.stringify(text)} is longer than 2^52 us, about 142 years`);
  }
  return Number(us);
}

/**
 * Milliseconds for people to read, without the unit: thousands in groups, as many decimals as there are (at most 3).
 *
 * @example
 * ```ts
 * formatDurationMs(9_898_000); // '9 898'
 * formatDurationMs(250); // '0.25'
 * ```
 */
export function formatDurationMs(us: number): string {
  const size = Math.abs(us);
  const whole = String(Math.floor(size / 1000)).replace(/\B(?=(?:\d{3})+$)/g, ' ');
  const rest = size % 1000;
  const decimals = rest === 0 ? '' : `.${String(rest).padStart(3, '0').replace(/0+$/, '')}`;
  return `${us < 0 ? '-' : ''}${whole}${decimals}`;
}
