import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatDurationMs, parseDuration } from './duration.js';
import { InputError } from './input-error.js';

describe('parseDuration', () => {
  test.each([
    ['10s', 10_000_000],
    ['50ms', 50_000],
    ['250us', 250],
    ['250µs', 250],
    ['0', 0],
    ['0ms', 0],
    ['1.5ms', 1500],
    ['1.001ms', 1001],
    ['2m', 120_000_000],
    ['2min', 120_000_000],
    ['1h', 3_600_000_000],
    [' 7ms ', 7000],
  ])('%s', (text, us) => {
    expect(parseDuration(text)).toBe(us);
  });

  test('says what would be right', () => {
    const messages = ['-1', '10', '10 s', '5d', '0.5us', '200000000000000s', ''].map(message);
    expect(messages).toMatchInlineSnapshot(`
      [
        "InputError: "-1" is not a duration; write it like 10s, 50ms or 250us",
        "InputError: duration "10" has no unit; write it like 10s, 50ms or 250us",
        "InputError: "10 s" is not a duration; write it like 10s, 50ms or 250us",
        "InputError: duration "5d" has the unknown unit "d"; write it like 10s, 50ms or 250us",
        "InputError: duration "0.5us" is not a whole number of microseconds; the finest unit is us",
        "InputError: duration "200000000000000s" is longer than 2^52 us, about 142 years",
        "InputError: "" is not a duration; write it like 10s, 50ms or 250us",
      ]
    `);
  });

  test('reads back any whole number of microseconds', () => {
    fc.assert(fc.property(fc.nat({ max: 2 ** 40 }), (us) => parseDuration(`${us}us`) === us));
    fc.assert(fc.property(fc.nat({ max: 2 ** 40 }), (us) => parseDuration(`${(us / 1000).toFixed(3)}ms`) === us));
  });

  function message(text: string): string {
    try {
      return String(parseDuration(text));
    } catch (error) {
      expect(error).toBeInstanceOf(InputError);
      return String(error);
    }
  }
});

describe('formatDurationMs', () => {
  test.each([
    [9_898_000, '9 898'],
    [898_000, '898'],
    [0, '0'],
    [250, '0.25'],
    [1, '0.001'],
    [1_234_567_890, '1 234 567.89'],
    [-9_898_500, '-9 898.5'],
    [2 ** 52, '4 503 599 627 370.496'],
  ])('%d µs', (us, text) => {
    expect(formatDurationMs(us)).toBe(text);
  });
});
