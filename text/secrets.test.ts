import { describe, expect, test } from 'vitest';
import { withoutPassword, withoutPasswords } from './secrets.js';

describe('an address is shown', () => {
  test.each([
    ['redis://h:1', 'redis://h:1'],
    ['redis://[::1]:1/2', 'redis://[::1]:1/2'],
    ['127.0.0.1:6379', '127.0.0.1:6379'],
    ['redis://:p@ss@h:1', 'redis://:***@h:1'],
    ['redis://u:p@h:1/2', 'redis://u:***@h:1/2'],
    ['redis://u:p/q@h:1/2', 'redis://u:***@h:1/2'],
    ['redis://u:p?q@h:1/2', 'redis://u:***@h:1/2'],
    ['redis://u:first half', 'redis://u:***'],
    ['redis://h:1?password=p&db=2', 'redis://h:1?password=***&db=2'],
    ['redis://h:1?db=2&sentinelPassword=p', 'redis://h:1?db=2&sentinelPassword=***'],
    ['u:p@h', 'u:***@h'],
  ])('%s as %s', (url, expected) => {
    expect(withoutPassword(url)).toBe(expected);
  });

  test('so are all in a text', () => {
    const text = 'neither redis://u:p@h nor "http://:q@h/" answers; see https://example.org:1/a';
    expect(withoutPasswords(text)).toBe(
      'neither redis://u:***@h nor "http://:***@h/" answers; see https://example.org:1/a',
    );
  });
});
