import { expect, it } from 'vitest';
import { tokensFor, withOwnDraws } from './tokens.js';

it('draws the tokens of nanoid as they are asked for', () => {
  const module = tokensFor('nanoid') as { nanoid: (size?: number) => string; default: { nanoid: unknown } };
  expect(module.nanoid()).toMatch(/^[\w-]{21}$/);
  expect(module.nanoid(5)).toHaveLength(5);
  expect(module.nanoid()).not.toBe(module.nanoid());
  expect(module.default.nanoid).toBe(module.nanoid);
  const { customAlphabet } = tokensFor('nanoid/non-secure') as {
    customAlphabet: (a: string, n: number) => () => string;
  };
  expect(customAlphabet('ab', 8)()).toMatch(/^[ab]{8}$/);
  expect(tokensFor('nanoid-dictionary')).toBeNull();
});

it('draws those of uuid so, too, and leaves its other functions', () => {
  const before = { v4: () => 'drawn before', v5: () => 'v5', default: { v4: () => 'drawn before' } };
  const after = withOwnDraws('uuid', before) as typeof before;
  expect(after.v4()).toMatch(/^[\da-f]{8}-[\da-f]{4}-4/);
  expect(after.default.v4()).toMatch(/^[\da-f]{8}-[\da-f]{4}-4/);
  expect(after.v5()).toBe('v5');
  expect(withOwnDraws('pg', before)).toBe(before);
});
