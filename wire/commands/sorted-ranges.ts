import { at, integer, option, placesOf, sortedSetOf } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, type Reply, SYNTAX } from '../reply.js';
import { type Scored, SortedSet } from '../sorted-set.js';
import { parseLoosely } from '../text.js';
import { withScores } from './sorted-pops.js';

type By = 'rank' | 'score' | 'lex';

/** A part of a sorted set, from one place to another, excluded. */
type Places = (zset: SortedSet) => readonly [number, number];

const NO_FLOAT = fail('min or max is not a float');
const NO_LEX = fail('min or max not valid string range item');

/** The first place, from 0, of which it does not hold any more. */
function firstNot(zset: SortedSet, holds: (it: Scored) => boolean): number {
  const all = zset.all();
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const it = all[middle];
    if (it !== undefined && holds(it)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function byScore(min: string, max: string): Places {
  const bound = (text: string): { readonly value: number; readonly open: boolean } => {
    const open = text.startsWith('(');
    const value = parseLoosely(open ? text.slice(1) : text);
    if (value === null) throw NO_FLOAT;
    return { value, open };
  };
  const [low, high] = [bound(min), bound(max)];
  return (zset) => [
    firstNot(zset, ({ score }) => (low.open ? score <= low.value : score < low.value)),
    firstNot(zset, ({ score }) => (high.open ? score < high.value : score <= high.value)),
  ];
}

function byLex(min: string, max: string): Places {
  const bound = (text: string): ((member: string, closed: boolean) => boolean) => {
    const [mark, value] = [text[0], text.slice(1)];
    if (mark === '[') return (member, closed) => (closed ? member <= value : member < value);
    if (mark === '(') return (member, closed) => (closed ? member < value : member <= value);
    if (text === '-') return () => false;
    if (text === '+') return () => true;
    throw NO_LEX;
  };
  const [low, high] = [bound(min), bound(max)];
  return (zset) => [
    firstNot(zset, ({ member }) => low(member, false)),
    firstNot(zset, ({ member }) => high(member, true)),
  ];
}

function byRank(min: string, max: string, isReverse: boolean): Places {
  const [first, last] = [integer(min), integer(max)];
  return (zset) => {
    const [from, to] = placesOf(first, last, zset.size);
    return isReverse ? [zset.size - to, zset.size - from] : [from, to];
  };
}

function placesBy(by: By, min: string, max: string): Places {
  if (by === 'rank') return byRank(min, max, false);
  return by === 'score' ? byScore(min, max) : byLex(min, max);
}

/** What a command on ranges is by its name; `ZRANGE` leaves it to its options. */
interface Form {
  readonly by: By | null;
  readonly isReverse: boolean | null;
  readonly stores: boolean;
}

interface Options {
  readonly by: By;
  readonly isReverse: boolean;
  readonly scores: boolean;
  readonly limit: readonly [offset: number, count: number] | null;
}

function optionsOf(argv: readonly string[], from: number, form: Form): Options {
  let [by, isReverse, scores, limit]: [By | null, boolean | null, boolean, Options['limit']] = [
    form.by,
    form.isReverse,
    false,
    null,
  ];
  for (let i = from; i < argv.length; i++) {
    const word = option(argv, i);
    if (!form.stores && word === 'withscores') scores = true;
    else if (word === 'limit' && i + 2 < argv.length) {
      limit = [integer(at(argv, i + 1)), integer(at(argv, i + 2))];
      i += 2;
    } else if (isReverse === null && word === 'rev') isReverse = true;
    else if (by === null && word === 'bylex') by = 'lex';
    else if (by === null && word === 'byscore') by = 'score';
    else throw SYNTAX;
  }
  const options = { by: by ?? 'rank', isReverse: isReverse ?? false, scores, limit };
  if (limit !== null && options.by === 'rank')
    throw fail('syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX');
  if (scores && options.by === 'lex') throw fail('syntax error, WITHSCORES not supported in combination with BYLEX');
  return options;
}

function select(zset: SortedSet, places: Places, { isReverse, limit }: Options): readonly Scored[] {
  const part = [...zset.slice(...places(zset))];
  if (isReverse) part.reverse();
  if (limit === null) return part;
  const [offset, count] = limit;
  if (offset < 0) return [];
  return part.slice(offset, count < 0 ? undefined : offset + count);
}

/** `ZRANGE` and its kin. @param from - The place of the key. */
const range =
  (form: Form, from = 1): Handler =>
  (argv, call) => {
    const { keys, instance, session } = call;
    const options = optionsOf(argv, from + 3, form);
    const { by, isReverse } = options;
    const [first, last] = [at(argv, from + 1), at(argv, from + 2)];
    const isSwapped = isReverse && by !== 'rank';
    const places =
      by === 'rank' ? byRank(first, last, isReverse) : placesBy(by, isSwapped ? last : first, isSwapped ? first : last);
    const zset = sortedSetOf(keys.find(at(argv, from)));
    const found = zset === null ? [] : select(zset, places, options);
    if (!form.stores)
      return options.scores ? withScores(found, session.protocol === 3) : found.map(({ member }) => member);
    const target = at(argv, 1);
    if (found.length === 0) {
      if (keys.find(target) !== undefined) keys.remove(target);
      return 0;
    }
    const result = new SortedSet();
    for (const { member, score } of found) result.set(member, score);
    result.grow(instance.limits.zsetEntries, instance.limits.zsetValue);
    keys.store(target, result, NEVER);
    return result.size;
  };

/** `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE`, `ZREMRANGEBYLEX`: `key min max` */
const removeRange =
  (by: By): Handler =>
  (argv, { keys }) => {
    const places = placesBy(by, at(argv, 2), at(argv, 3));
    const key = at(argv, 1);
    const zset = sortedSetOf(keys.find(key));
    if (zset === null) return 0;
    const [from, to] = places(zset);
    const count = to > from ? zset.removeRange(from, to) : 0;
    if (zset.size === 0) keys.remove(key);
    else if (count > 0) keys.changed(key);
    return count;
  };

/** `ZCOUNT` and `ZLEXCOUNT`: `key min max` */
const countRange =
  (by: By): Handler =>
  (argv, { keys }: Call): Reply => {
    const places = placesBy(by, at(argv, 2), at(argv, 3));
    const zset = sortedSetOf(keys.find(at(argv, 1)));
    if (zset === null) return 0;
    const [from, to] = places(zset);
    return Math.max(0, to - from);
  };

const FREE: Form = { by: null, isReverse: null, stores: false };

/** Commands on parts of sorted sets. */
export const SORTED_RANGES: Readonly<Record<string, Row>> = {
  zcount: [4, 'r', countRange('score'), KEY],
  zlexcount: [4, 'r', countRange('lex'), KEY],
  zrange: [-4, 'r', range(FREE), KEY],
  zrangebylex: [-4, 'r', range({ by: 'lex', isReverse: false, stores: false }), KEY],
  zrangebyscore: [-4, 'r', range({ by: 'score', isReverse: false, stores: false }), KEY],
  zrangestore: [-5, 'wm', range({ ...FREE, stores: true }, 2), [1, 2, 1]],
  zremrangebylex: [4, 'w', removeRange('lex'), KEY],
  zremrangebyrank: [4, 'w', removeRange('rank'), KEY],
  zremrangebyscore: [4, 'w', removeRange('score'), KEY],
  zrevrange: [-4, 'r', range({ by: 'rank', isReverse: true, stores: false }), KEY],
  zrevrangebylex: [-4, 'r', range({ by: 'lex', isReverse: true, stores: false }), KEY],
  zrevrangebyscore: [-4, 'r', range({ by: 'score', isReverse: true, stores: false }), KEY],
};
