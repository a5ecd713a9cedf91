import { LONGEST_US } from '../core/index.js';
import { show } from './input-error.js';
import { meant, nearest } from './nearest.js';
import * as z from './zod.js';

/*
 * What the grammar is made of, by functions of zod and not by methods: in a page, its small form takes the place of the
 * whole one, and has no others. Every part knows in words what would be right, so that an error can say so: messages are
 * made here, next to the rule, and only placed by the parser.
 */

type Raw = { readonly code?: string | undefined; readonly input?: unknown; readonly keys?: readonly string[] };

/** Message for a value that is not `right`. */
export function wrong(right: string): (issue: Raw) => string {
  return ({ input }) => (input === undefined ? `missing; it must be ${right}` : `${show(input)} is not ${right}`);
}

/** Whole numbers from `low` to `high`, and how an error calls them. */
export interface Range {
  readonly low: number;
  readonly high: number;
  readonly right: string;
}

/** Instants and durations, µs. */
export const MICROS: Range = { low: 0, high: LONGEST_US, right: 'a whole number of microseconds from 0 to 2^52' };

/** Shifts in time, µs, either way. */
export const SHIFT: Range = {
  low: -LONGEST_US,
  high: LONGEST_US,
  right: 'a whole number of microseconds within ±2^52',
};

/** Times to live, ms. */
export const TTL: Range = { low: 1, high: LONGEST_US, right: 'a whole number of milliseconds from 1 to 2^52' };

/** Parts per million within ±`most`. */
export function ppm(most: number): Range {
  return { low: -most, high: most, right: `a whole number of parts per million within ±${most}` };
}

/** Numbers that count something, from `low` up. */
export function from(low: number): Range {
  return { low, high: Number.MAX_SAFE_INTEGER, right: `a whole number from ${low} up` };
}

/** A number of the range. */
export function whole({ low, high, right }: Range, error: (issue: Raw) => string = wrong(right)): z.ZodInt {
  return z.int({ error }).check(z.gte(low, { error }), z.lte(high, { error }));
}

/** A number of the range, or `null` for what `meaning` says. */
export function orNull(range: Range, meaning: string): z.ZodUnion<[z.ZodInt, z.ZodNull]> {
  const error = wrong(`${range.right}, or null ${meaning}`);
  return z.union([whole(range, error), z.null()], { error });
}

/** A whole number or one of `words`. */
export function countOr<const W extends readonly [string, ...string[]]>(
  low: number,
  high: number,
  ...words: W
): z.ZodUnion<[z.ZodEnum<{ [K in W[number]]: K }>, z.ZodInt]> {
  const error = wrong(either([...words.map(show), `a whole number from ${low} to ${high}`]));
  return z.union([z.enum(words, { error }), whole({ low, high, right: '' }, error)], { error });
}

/** `a`, `a or b`, `a, b or c`. */
function either(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** One of `words`. */
export function oneOf<const W extends readonly [string, ...string[]]>(...words: W): z.ZodEnum<{ [K in W[number]]: K }> {
  return z.enum(words, { error: ({ input }) => notOneOf(input, words) });
}

function notOneOf(input: unknown, words: readonly string[]): string {
  const near = typeof input === 'string' ? nearest(input, words) : undefined;
  if (near !== undefined && words.length > 1) return mistyped(input, near);
  return wrong(either(words.map(show)))({ input });
}

/** Message for an object whose `tag` is none of `words`, or for something that is no object. */
export function wrongTag(what: string, tag: string, words: readonly string[]): (issue: Raw) => string {
  return ({ code, input }) => {
    if (code !== 'invalid_union' || typeof input !== 'object' || input === null)
      return wrong(`${what} (an object)`)({ input });
    const given: unknown = Reflect.get(input, tag);
    const known = `one of ${words.join(', ')}`;
    if (given === undefined) return `missing; it must be ${known}`;
    const near = typeof given === 'string' ? nearest(given, words) : undefined;
    return near === undefined ? `${show(given)} is not ${known}` : mistyped(given, near);
  };
}

function mistyped(given: unknown, near: string): string {
  return `${show(given)} is unknown; did you mean ${show(near)}?`;
}

/** Text that is not empty. */
export function text(right: string): z.ZodString {
  const error = wrong(right);
  return z.string({ error }).check(z.minLength(1, { error }));
}

/** Text of a certain form. */
export function formed(form: RegExp, right: string): z.ZodString {
  const error = wrong(right);
  return z.string({ error }).check(z.regex(form, { error }));
}

/** Anything at all, but not nothing. */
export function anything(right: string): z.ZodNonOptional<z.ZodUnknown> {
  return z.nonoptional(z.unknown(), { error: wrong(right) });
}

/** A field that may be left out. */
export function maybe<P extends z.ZodType>(part: P): z.ZodExactOptional<P> {
  return z.exactOptional(part);
}

/** Yes or no. */
export function flag(): z.ZodBoolean {
  return z.boolean({ error: wrong('true or false') });
}

/** A list of `part`. */
export function list<P extends z.ZodType>(part: P, right: string): z.ZodArray<P> {
  return z.array(part, { error: wrong(right) });
}

/** A list of at least one `part`. */
export function someOf<P extends z.ZodType>(part: P, right: string): z.ZodArray<P> {
  return z.array(part, { error: wrong(right) }).check(z.minLength(1, { error: `empty; it must be ${right}` }));
}

/** Message for a field that `fields` does not have. */
function unknownField(key: string, fields: readonly string[], what: string): string {
  return `not a field of ${what}; ${meant(key, fields, 'the fields are')}`;
}

/** An object with these fields and no other. */
export function record<S extends z.core.$ZodLooseShape>(what: string, shape: S): z.ZodObject<S, z.core.$strict> {
  return z.strictObject(shape, {
    error: (issue) => {
      const key = issue.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
      return key === undefined ? wrong(`${what} (an object)`)(issue) : unknownField(key, Object.keys(shape), what);
    },
  });
}
