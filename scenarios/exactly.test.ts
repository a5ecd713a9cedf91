import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { exactly, type Same } from './exactly.js';

interface Point {
  readonly x: number;
  readonly tags: readonly string[];
  readonly label?: 'a' | 'b';
}

const x = z.int();
const tags = z.array(z.string());
const label = z.enum(['a', 'b']).exactOptional();

// Every grammar of this room goes through `exactly`: that it compiles is the proof for the handwritten types. Here is
// the proof that it would not compile otherwise.
test('a schema that says the same is taken', () => {
  const schema = exactly<Point>()(z.strictObject({ x, tags, label }));
  expectTypeOf<z.output<typeof schema>>().toEqualTypeOf<Point>();
  expect(schema.safeParse({ x: 1, tags: [] }).success).toBe(true);
});

test('a schema that says more, less or other is a compile error', () => {
  // @ts-expect-error a field is missing
  exactly<Point>()(z.strictObject({ x, label }));
  // @ts-expect-error an optional field is missing
  exactly<Point>()(z.strictObject({ x, tags }));
  // @ts-expect-error a field too many
  exactly<Point>()(z.strictObject({ x, tags, label, y: x }));
  // @ts-expect-error an optional field too many
  exactly<Point>()(z.strictObject({ x, tags, label, y: x.exactOptional() }));
  // @ts-expect-error optional instead of required
  exactly<Point>()(z.strictObject({ x: x.exactOptional(), tags, label }));
  // @ts-expect-error required instead of optional
  exactly<Point>()(z.strictObject({ x, tags, label: z.enum(['a', 'b']) }));
  // @ts-expect-error may be present and undefined
  exactly<Point>()(z.strictObject({ x, tags, label: z.enum(['a', 'b']).optional() }));
  // @ts-expect-error a word too few
  exactly<Point>()(z.strictObject({ x, tags, label: z.enum(['a']).exactOptional() }));
  // @ts-expect-error any text
  exactly<Point>()(z.strictObject({ x, tags, label: z.string().exactOptional() }));
  // @ts-expect-error deep inside
  exactly<{ readonly points: readonly Point[] }>()(z.strictObject({ points: z.array(z.strictObject({ x })) }));
});

test('sameness sees modifiers', () => {
  expectTypeOf<Same<{ readonly a: 1 }, { a: 1 }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a?: 1 }, { a: 1 | undefined }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<unknown, 1>>().toEqualTypeOf<false>();
});
