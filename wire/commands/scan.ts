import { at, hashOf, integer, option, setOf, sortedSetOf } from '../arguments.js';
import type { Handler } from '../command.js';
import { fail, type Reply, SYNTAX } from '../reply.js';
import { formatDouble, matches } from '../text.js';
import { typeOf } from '../values.js';

interface Options {
  readonly count: number;
  readonly pattern: string | null;
  readonly type: string | null;
}

const USUAL_COUNT = 10;

function optionsOf(argv: readonly string[], from: number, takesType: boolean): Options {
  let [count, pattern, type]: [number, string | null, string | null] = [USUAL_COUNT, null, null];
  for (let i = from; i < argv.length; i += 2) {
    const word = option(argv, i);
    const value = argv[i + 1];
    if (value === undefined) throw SYNTAX;
    if (word === 'count') {
      count = integer(value);
      if (count < 1) throw SYNTAX;
    } else if (word === 'match') pattern = value;
    else if (word === 'type' && takesType) type = value.toLowerCase();
    else throw SYNTAX;
  }
  return { count, pattern, type };
}

function cursorOf(text: string): number {
  if (text === '') return 0;
  if (!/^[+-]?\d{1,20}$/.test(text)) throw fail('invalid cursor');
  // `strtoul` takes a sign, and lets negative numbers begin again from the greatest.
  return Number(BigInt.asUintN(64, BigInt(text.replace('+', ''))));
}

/** A number from 1 to 2^32 for a text (FNV-1a): its place in an iteration, whatever comes and goes meanwhile. */
function placeOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0) + 1;
}

/** At least `count` of the names from a cursor on, and the next cursor, `0` at the end. */
function page(names: Iterable<string>, cursor: number, count: number): readonly [string, readonly string[]] {
  const left = [...names]
    .map((name) => ({ name, place: placeOf(name) }))
    .filter(({ place }) => place >= cursor)
    .sort((a, b) => a.place - b.place);
  let end = Math.min(count, left.length);
  while (end > 0 && end < left.length && left[end]?.place === left[end - 1]?.place) end++;
  const next = left[end]?.place ?? 0;
  return [String(next), left.slice(0, end).map(({ name }) => name)];
}

/** `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]` */
export const scan: Handler = (argv, { keys }) => {
  const cursor = cursorOf(at(argv, 1));
  const { count, pattern, type } = optionsOf(argv, 2, true);
  const [next, names] = page(keys.keys(), cursor, count);
  const found = names.filter((name) => {
    if (pattern !== null && !matches(pattern, name)) return false;
    const value = keys.find(name)?.value;
    return type === null || (value !== undefined && typeOf(value) === type);
  });
  return [next, found];
};

/** What an element answers: itself, or itself and what belongs to it. */
type Elements = ReadonlyMap<string, string> | ReadonlySet<string>;

function collection(
  name: 'sscan' | 'hscan' | 'zscan',
  argv: readonly string[],
  keys: Parameters<Handler>[1]['keys'],
): Elements | null {
  const entry = keys.find(at(argv, 1));
  if (name === 'hscan') return hashOf(entry)?.fields ?? null;
  if (name === 'sscan') {
    const set = setOf(entry);
    return set === null ? null : new Set(set.list());
  }
  const zset = sortedSetOf(entry);
  return zset === null ? null : new Map(zset.all().map(({ member, score }) => [member, formatDouble(score)]));
}

/** `SSCAN`, `HSCAN`, `ZSCAN`: `key cursor [MATCH pattern] [COUNT count]` */
export const scanOf =
  (name: 'sscan' | 'hscan' | 'zscan'): Handler =>
  (argv, { keys }) => {
    const cursor = cursorOf(at(argv, 2));
    const elements = collection(name, argv, keys);
    if (elements === null) return ['0', []];
    const { count, pattern } = optionsOf(argv, 3, false);
    const entry = keys.find(at(argv, 1))?.value;
    const isLarge = typeof entry === 'object' && 'large' in entry && entry.large;
    const names = elements.keys();
    const [next, found] = isLarge ? page(names, cursor, count) : ['0', [...names]];
    const items: Reply[] = [];
    for (const it of found) {
      if (pattern !== null && !matches(pattern, it)) continue;
      items.push(it);
      if (elements instanceof Map) items.push(elements.get(it) ?? '');
    }
    return [next, items];
  };
