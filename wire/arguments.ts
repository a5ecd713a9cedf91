import type { Entry } from './keyspace.js';
import { type Failure, fail, NOT_FLOAT, NOT_INTEGER, WRONG_TYPE } from './reply.js';
import { SortedSet } from './sorted-set.js';
import { parseDouble, parseInteger } from './text.js';
import { Hash, List, MemberSet, Stream } from './values.js';

/** The argument at a place, which arity or a check made sure of. */
export function at(argv: readonly string[], place: number): string {
  return argv[place] ?? '';
}

/** An argument in lower case, for options. */
export function option(argv: readonly string[], place: number): string {
  return (argv[place] ?? '').toLowerCase();
}

/** An integer of 64 bits; throws where it is none. */
export function wide(text: string, otherwise: Failure = NOT_INTEGER): bigint {
  const value = parseInteger(text);
  if (value === null) throw otherwise;
  return BigInt(value);
}

/** An integer as a number, the nearest one beyond 2^53; throws where it is none. */
export function integer(text: string, otherwise: Failure = NOT_INTEGER): number {
  const value = parseInteger(text);
  if (value === null) throw otherwise;
  return Number(value);
}

const NOT_POSITIVE = fail('value is out of range, must be positive');

/** An integer between bounds, with the sentences of Redis on those that are not. */
export function ranged(text: string, least: number, most: number, otherwise?: Failure): number {
  const number = integer(text, otherwise);
  if (number >= least && number <= most) return number;
  throw otherwise ?? fail(`value is out of range, value must between ${least} and ${most}`);
}

const MAX_LONG = 2n ** 63n - 1n;

/** An integer whose sign may be turned. */
export function long(text: string): number {
  if (wide(text) >= -MAX_LONG) return integer(text);
  throw fail(`value is out of range, value must between ${-MAX_LONG} and ${MAX_LONG}`);
}

/** A count that must not be negative. */
export function positive(text: string, otherwise: Failure = NOT_POSITIVE): number {
  return ranged(text, 0, Number.POSITIVE_INFINITY, otherwise);
}

/** A double; throws where it is none. */
export function double(text: string, otherwise: Failure = NOT_FLOAT): number {
  const value = parseDouble(text);
  if (value === null) throw otherwise;
  return value;
}

/** The string under a key, `null` for none; throws where it is of another type. */
export function stringOf(entry: Entry | undefined): string | null {
  if (entry === undefined) return null;
  if (typeof entry.value !== 'string') throw WRONG_TYPE;
  return entry.value;
}

/** The hash under a key, `null` for none; throws where it is of another type. */
export function hashOf(entry: Entry | undefined): Hash | null {
  if (entry === undefined) return null;
  if (!(entry.value instanceof Hash)) throw WRONG_TYPE;
  return entry.value;
}

/** The list under a key, `null` for none; throws where it is of another type. */
export function listOf(entry: Entry | undefined): List | null {
  if (entry === undefined) return null;
  if (!(entry.value instanceof List)) throw WRONG_TYPE;
  return entry.value;
}

/** The set under a key, `null` for none; throws where it is of another type. */
export function setOf(entry: Entry | undefined): MemberSet | null {
  if (entry === undefined) return null;
  if (!(entry.value instanceof MemberSet)) throw WRONG_TYPE;
  return entry.value;
}

/** The sorted set under a key, `null` for none; throws where it is of another type. */
export function sortedSetOf(entry: Entry | undefined): SortedSet | null {
  if (entry === undefined) return null;
  if (!(entry.value instanceof SortedSet)) throw WRONG_TYPE;
  return entry.value;
}

/** The stream under a key, `null` for none; throws where it is of another type. */
export function streamOf(entry: Entry | undefined): Stream | null {
  if (entry === undefined) return null;
  if (!(entry.value instanceof Stream)) throw WRONG_TYPE;
  return entry.value;
}

/** A range of `length` places from two indexes that may count from the end: from, and to, excluded. */
export function placesOf(first: number, last: number, length: number): readonly [number, number] {
  const from = Math.max(0, first < 0 ? first + length : first);
  const to = Math.min(length - 1, last < 0 ? last + length : last);
  return from > to || from >= length ? [0, 0] : [from, to + 1];
}
