import type { z } from 'zod';

type DeepReadonly<T> = T extends readonly (infer Element)[]
  ? readonly DeepReadonly<Element>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;

/** Whether two types are the same: not merely assignable, but with the same modifiers all the way down. */
export type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/**
 * The handwritten types are the truth, and a grammar must say neither more nor less: `exactly<T>()(schema)` compiles
 * only if what `schema` infers is `T` itself. (What a schema infers is mutable; `T` is readonly throughout.)
 */
export function exactly<T>(): <S extends z.ZodType>(
  schema: Same<DeepReadonly<z.output<S>>, T> extends true ? S : ['the schema and the type differ', z.output<S>],
) => z.ZodType<T> {
  // What the signature demands of the schema makes it a ZodType<T>, which the compiler cannot see.
  return (schema) => schema as unknown as z.ZodType<T>;
}
