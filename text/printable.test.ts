import { expect, it } from 'vitest';
import { printable, printableLines } from './printable.js';

it('shows in one line what a terminal would obey, or nobody would see', () => {
  const codes = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const obeyed = [
    codes(0, 0x1f),
    codes(0x7f, 0x9f),
    [0xad, 0x61c, 0x200b],
    codes(0x200e, 0x200f),
    codes(0x2028, 0x202e),
  ];
  for (const code of [...obeyed, codes(0x2066, 0x2069), [0xd800, 0xdfff, 0xfeff, 0xe0041]].flat()) {
    const shown = printable(`a${String.fromCodePoint(code)}b`);
    expect(shown).toMatch(/^a(?:\\[nrt]|(?:\\u[0-9a-f]{4}){1,2})b$/);
    expect(JSON.parse(`"${shown}"`)).toBe(`a${String.fromCodePoint(code)}b`);
  }
});

it('leaves alone what can be seen, and what was shown already', () => {
  const text = 'n0 → c1, „naïve“ ✓ 日本語 🔒 "a\\b"';
  expect(printable(text)).toBe(text);
  expect(printable(printable('a\nb\u202e'))).toBe('a\\nb\\u202e');
  expect(printableLines('a\n\tb\r\u001b[2K')).toBe('a\n\tb\\r\\u001b[2K');
});

it('cuts what is too long in its middle, between whole characters', () => {
  expect(printable('abcdefghij', 10)).toBe('abcdefghij');
  expect(printable('abcdefghijk', 10)).toBe('abcde…hijk');
  expect(printable('🔒'.repeat(10), 9)).toBe('🔒🔒…🔒🔒');
  expect(printable('\u001b'.repeat(10), 20)).toBe('\\u001b…\\u001b');
  expect(printable('x'.repeat(10_000_000), 100)).toHaveLength(100);
});
