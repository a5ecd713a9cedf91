import { at, integer, listOf, option, placesOf, positive, ranged } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, NO_KEY, NULL_ARRAY, OK, type Reply, SYNTAX, wrongArity } from '../reply.js';
import { List } from '../values.js';

/** An end of a list. */
export type Side = 'left' | 'right';

/** Puts elements, one after the other, to one end of a list. */
function push(key: string, side: Side, elements: readonly string[], { keys }: Call): number {
  const found = listOf(keys.find(key));
  const list = found ?? new List();
  if (side === 'right') list.items.push(...elements);
  else list.items.unshift(...[...elements].reverse());
  if (found === null) keys.store(key, list, NEVER);
  else keys.changed(key);
  return list.items.length;
}

/** Takes elements, in their order from one end, off a list that is there. */
export function pop(key: string, side: Side, count: number, { keys }: Call): string[] {
  const list = listOf(keys.find(key));
  if (list === null) return [];
  const taken =
    side === 'left' ? list.items.splice(0, count) : list.items.splice(Math.max(0, list.items.length - count)).reverse();
  if (list.items.length === 0) keys.remove(key);
  else if (taken.length > 0) keys.changed(key);
  return taken;
}

const pushTo =
  (side: Side, onlyIfPresent: boolean): Handler =>
  (argv, call) => {
    const key = at(argv, 1);
    if (onlyIfPresent && listOf(call.keys.find(key)) === null) return 0;
    return push(key, side, argv.slice(2), call);
  };

const popFrom =
  (side: Side): Handler =>
  (argv, call) => {
    const key = at(argv, 1);
    if (argv.length > 3) throw wrongArity(side === 'left' ? 'lpop' : 'rpop');
    const count = argv.length === 3 ? positive(at(argv, 2)) : null;
    const list = listOf(call.keys.find(key));
    if (list === null) return count === null ? null : NULL_ARRAY;
    const taken = pop(key, side, count ?? 1, call);
    return count === null ? (taken[0] ?? null) : taken;
  };

const itemsOf = (argv: readonly string[], { keys }: Call): readonly string[] =>
  listOf(keys.find(at(argv, 1)))?.items ?? [];

const lindex: Handler = (argv, call) => {
  const items = itemsOf(argv, call);
  if (call.keys.find(at(argv, 1)) === undefined) return null;
  return items.at(integer(at(argv, 2))) ?? null;
};

const lset: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const list = listOf(keys.find(key));
  if (list === null) throw NO_KEY;
  const index = integer(at(argv, 2));
  const place = index < 0 ? index + list.items.length : index;
  if (place < 0 || place >= list.items.length) throw fail('index out of range');
  list.items[place] = at(argv, 3);
  keys.changed(key);
  return OK;
};

const linsert: Handler = (argv, { keys }) => {
  const where = option(argv, 2);
  if (where !== 'after' && where !== 'before') throw SYNTAX;
  const key = at(argv, 1);
  const list = listOf(keys.find(key));
  if (list === null) return 0;
  const place = list.items.indexOf(at(argv, 3));
  if (place < 0) return -1;
  list.items.splice(where === 'after' ? place + 1 : place, 0, at(argv, 4));
  keys.changed(key);
  return list.items.length;
};

const lrem: Handler = (argv, { keys }) => {
  const [key, count, element] = [at(argv, 1), integer(at(argv, 2)), at(argv, 3)];
  const list = listOf(keys.find(key));
  if (list === null) return 0;
  const places = list.items.flatMap((it, place) => (it === element ? [place] : []));
  const gone = new Set(count > 0 ? places.slice(0, count) : count < 0 ? places.slice(count) : places);
  if (gone.size === 0) return 0;
  list.items = list.items.filter((_, place) => !gone.has(place));
  if (list.items.length === 0) keys.remove(key);
  else keys.changed(key);
  return gone.size;
};

const lrange: Handler = (argv, call) => {
  const [first, last] = [integer(at(argv, 2)), integer(at(argv, 3))];
  const items = itemsOf(argv, call);
  return items.slice(...placesOf(first, last, items.length));
};

const ltrim: Handler = (argv, { keys }) => {
  const [first, last] = [integer(at(argv, 2)), integer(at(argv, 3))];
  const key = at(argv, 1);
  const list = listOf(keys.find(key));
  if (list === null) return OK;
  list.items = list.items.slice(...placesOf(first, last, list.items.length));
  if (list.items.length === 0) keys.remove(key);
  else keys.changed(key);
  return OK;
};

const lpos: Handler = (argv, call) => {
  let [rank, count, most]: [number, number | null, number] = [1, null, 0];
  for (let i = 3; i < argv.length; i += 2) {
    const [word, value] = [option(argv, i), argv[i + 1]];
    if (value === undefined) throw SYNTAX;
    if (word === 'rank') {
      rank = integer(value);
      if (rank === 0)
        throw fail(
          "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
        );
    } else if (word === 'count') count = positive(value, fail("COUNT can't be negative"));
    else if (word === 'maxlen') most = positive(value, fail("MAXLEN can't be negative"));
    else throw SYNTAX;
  }
  const isMissing = call.keys.find(at(argv, 1)) === undefined;
  const items = itemsOf(argv, call);
  if (isMissing) return count === null ? null : [];
  const step = rank > 0 ? 1 : -1;
  const found: number[] = [];
  let [matched, looked] = [0, 0];
  for (let i = step > 0 ? 0 : items.length - 1; i >= 0 && i < items.length; i += step) {
    if (most > 0 && looked++ >= most) break;
    if (items[i] !== at(argv, 2) || ++matched < Math.abs(rank)) continue;
    found.push(i);
    if (count === null || (count > 0 && found.length >= count)) break;
  }
  return count === null ? (found[0] ?? null) : found;
};

/** `LEFT` or `RIGHT`; throws where it is neither. */
export function sideAt(argv: readonly string[], place: number): Side {
  const side = option(argv, place);
  if (side === 'left' || side === 'right') return side;
  throw SYNTAX;
}

/** Moves one element from one list to another; `null` if there is none. */
export function moveElement(from: string, to: string, sides: readonly [Side, Side], call: Call): string | null {
  if (listOf(call.keys.find(from)) === null) return null;
  listOf(call.keys.find(to));
  const [element = ''] = pop(from, sides[0], 1, call);
  push(to, sides[1], [element], call);
  return element;
}

const lmove: Handler = (argv, call) => moveElement(at(argv, 1), at(argv, 2), [sideAt(argv, 3), sideAt(argv, 4)], call);

/** The keys, the side and the count of `LMPOP` and its kin, which begin at a place. */
export interface Several {
  readonly names: readonly string[];
  readonly where: string;
  readonly count: number;
}

/** Reads `numkeys key … where [COUNT count]`. */
export function severalAt(argv: readonly string[], from: number, sides: readonly string[]): Several {
  const size = ranged(at(argv, from), 1, Number.POSITIVE_INFINITY, fail('numkeys should be greater than 0'));
  const place = from + 1 + size;
  const where = option(argv, place);
  if (place >= argv.length || !sides.includes(where)) throw SYNTAX;
  let count: number | null = null;
  for (let i = place + 1; i < argv.length; i += 2) {
    if (option(argv, i) !== 'count' || count !== null || i + 1 >= argv.length) throw SYNTAX;
    count = ranged(at(argv, i + 1), 1, Number.POSITIVE_INFINITY, fail('count should be greater than 0'));
  }
  return { names: argv.slice(from + 1, place), where, count: count ?? 1 };
}

/** What `LMPOP` takes off the first list that is there, or `null`. */
export function popFirst({ names, where, count }: Several, call: Call): Reply {
  for (const name of names) {
    const list = listOf(call.keys.find(name));
    if (list !== null) return [name, pop(name, where as Side, count, call)];
  }
  return null;
}

const lmpop: Handler = (argv, call) => popFirst(severalAt(argv, 1, ['left', 'right']), call) ?? NULL_ARRAY;

/** Commands on lists that never wait. */
export const LISTS: Readonly<Record<string, Row>> = {
  lindex: [3, 'r', lindex, KEY],
  linsert: [5, 'wm', linsert, KEY],
  llen: [2, 'r', (argv, call) => itemsOf(argv, call).length, KEY],
  lmove: [5, 'wm', lmove, [1, 2, 1]],
  lmpop: [-4, 'w', lmpop],
  lpop: [-2, 'w', popFrom('left'), KEY],
  lpos: [-3, 'r', lpos, KEY],
  lpush: [-3, 'wm', pushTo('left', false), KEY],
  lpushx: [-3, 'wm', pushTo('left', true), KEY],
  lrange: [4, 'r', lrange, KEY],
  lrem: [4, 'w', lrem, KEY],
  lset: [4, 'wm', lset, KEY],
  ltrim: [4, 'w', ltrim, KEY],
  rpop: [-2, 'w', popFrom('right'), KEY],
  rpoplpush: [3, 'wm', (argv, call) => moveElement(at(argv, 1), at(argv, 2), ['right', 'left'], call), [1, 2, 1]],
  rpush: [-3, 'wm', pushTo('right', false), KEY],
  rpushx: [-3, 'wm', pushTo('right', true), KEY],
};
