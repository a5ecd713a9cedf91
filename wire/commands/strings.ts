import { at, integer, option, stringOf, wide } from '../arguments.js';
import { type Call, type Handler, KEY, KEYS, type Row } from '../command.js';
import { digestOf } from '../digest.js';
import { KEEP, NEVER } from '../keyspace.js';
import { addLongDoubles, formatLongDouble, parseLongDouble } from '../long-double.js';
import { fail, NOT_FLOAT, OK, type Reply, WRONG_TYPE, wrongArity } from '../reply.js';
import { narrow, parseInteger } from '../text.js';
import { conditionOf, getex, meets, set, setnx, setWithTtl } from './set.js';

const MAX_STRING = 512 * 1024 * 1024;
const TOO_LONG = fail('string exceeds maximum allowed size (proto-max-bulk-len)');

const get: Handler = (argv, { keys }) => stringOf(keys.find(at(argv, 1)));

const getset: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const old = stringOf(keys.find(key));
  keys.store(key, at(argv, 2), NEVER);
  return old;
};

const getdel: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const old = stringOf(keys.find(key));
  if (old !== null) keys.remove(key);
  return old;
};

const mget: Handler = (argv, { keys }) =>
  argv.slice(1).map((key) => {
    const value = keys.find(key)?.value;
    return typeof value === 'string' ? value : null;
  });

/** `MSET` and `MSETNX`. */
const mset =
  (name: 'mset' | 'msetnx'): Handler =>
  (argv, { keys }) => {
    if (argv.length % 2 === 0) throw wrongArity(name);
    for (let i = 1; i < argv.length && name === 'msetnx'; i += 2) {
      if (keys.find(at(argv, i)) !== undefined) return 0;
    }
    for (let i = 1; i < argv.length; i += 2) keys.store(at(argv, i), at(argv, i + 1), NEVER);
    return name === 'mset' ? OK : 1;
  };

function increment(key: string, by: bigint, { keys }: Call): Reply {
  const entry = keys.find(key);
  const value = narrow(wide(stringOf(entry) ?? '0') + by);
  if (value === null) throw fail('increment or decrement would overflow');
  keys.store(key, String(value), KEEP);
  return value;
}

const decrby: Handler = (argv, call) => {
  const by = wide(at(argv, 2));
  if (narrow(-by) === null) throw fail('decrement would overflow');
  return increment(at(argv, 1), -by, call);
};

const incrbyfloat: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const entry = keys.find(key);
  const [value, by] = [parseLongDouble(stringOf(entry) ?? '0'), parseLongDouble(at(argv, 2))];
  if (value === null || by === null) throw NOT_FLOAT;
  if (value === 'infinite' || by === 'infinite') throw fail('increment would produce NaN or Infinity');
  const text = formatLongDouble(addLongDoubles(value, by));
  keys.store(key, text, KEEP, 'text');
  return text;
};

const append: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const entry = keys.find(key);
  const value = stringOf(entry);
  const text = (value ?? '') + at(argv, 2);
  if (text.length > MAX_STRING) throw TOO_LONG;
  keys.store(key, text, KEEP, value === null ? 'auto' : 'raw');
  return text.length;
};

const strlen: Handler = (argv, { keys }) => stringOf(keys.find(at(argv, 1)))?.length ?? 0;

const setrange: Handler = (argv, { keys }) => {
  const [key, offset, part] = [at(argv, 1), integer(at(argv, 2)), at(argv, 3)];
  if (offset < 0) throw fail('offset is out of range');
  const entry = keys.find(key);
  const value = stringOf(entry) ?? '';
  if (part === '') return value.length;
  if (offset + part.length > MAX_STRING) throw TOO_LONG;
  const text = value.slice(0, offset).padEnd(offset, '\0') + part + value.slice(offset + part.length);
  keys.store(key, text, KEEP, 'raw');
  return text.length;
};

const getrange: Handler = (argv, { keys }) => {
  let [first, last] = [integer(at(argv, 2)), integer(at(argv, 3))];
  const value = stringOf(keys.find(at(argv, 1))) ?? '';
  if (first < 0 && last < 0 && first > last) return '';
  if (first < 0) first = Math.max(0, first + value.length);
  if (last < 0) last = Math.max(0, last + value.length);
  return value.slice(first, Math.min(last, value.length - 1) + 1);
};

/** `DIGEST key` */
const digest: Handler = (argv, { keys }) => {
  const value = stringOf(keys.find(at(argv, 1)));
  return value === null ? null : digestOf(value);
};

/** `DELEX key [IFEQ value|IFNE value|IFDEQ digest|IFDNE digest]` */
const delex: Handler = (argv, call) => {
  const key = at(argv, 1);
  if (argv.length === 2) return call.keys.remove(key) ? 1 : 0;
  if (argv.length !== 4) throw wrongArity('delex');
  const kind = conditionOf(option(argv, 2), call);
  if (kind === null) throw fail('Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE');
  const entry = call.keys.find(key);
  if (entry === undefined) return 0;
  if (typeof entry.value !== 'string') throw WRONG_TYPE;
  return meets(entry.value, { kind, text: at(argv, 3) }) && call.keys.remove(key) ? 1 : 0;
};

/** `DELIFEQ key value` */
const delifeq: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  return stringOf(keys.find(key)) === at(argv, 2) && keys.remove(key) ? 1 : 0;
};

// ——— bits ———

function bitOffset(text: string): number {
  const offset = parseInteger(text);
  if (offset === null || offset < 0 || offset >= MAX_STRING * 8)
    throw fail('bit offset is not an integer or out of range');
  return Number(offset);
}

const getbit: Handler = (argv, { keys }) => {
  const offset = bitOffset(at(argv, 2));
  const byte = (stringOf(keys.find(at(argv, 1))) ?? '').charCodeAt(offset >>> 3);
  return Number.isNaN(byte) ? 0 : (byte >> (7 - (offset & 7))) & 1;
};

const setbit: Handler = (argv, { keys }) => {
  const [key, offset, bit] = [at(argv, 1), bitOffset(at(argv, 2)), at(argv, 3)];
  if (bit !== '0' && bit !== '1') throw fail('bit is not an integer or out of range');
  const entry = keys.find(key);
  const value = (stringOf(entry) ?? '').padEnd((offset >>> 3) + 1, '\0');
  const [place, mask] = [offset >>> 3, 1 << (7 - (offset & 7))];
  const byte = value.charCodeAt(place);
  const text =
    value.slice(0, place) + String.fromCharCode(bit === '1' ? byte | mask : byte & ~mask) + value.slice(place + 1);
  keys.store(key, text, KEEP, 'raw');
  return (byte & mask) === 0 ? 0 : 1;
};

const bySign =
  (sign: 1n | -1n): Handler =>
  (argv, call) =>
    increment(at(argv, 1), sign, call);

/** Commands on strings. */
export const STRINGS: Readonly<Record<string, Row>> = {
  append: [3, 'wm', append, KEY],
  decr: [2, 'wm', bySign(-1n), KEY],
  decrby: [3, 'wm', decrby, KEY],
  delex: [-2, 'w', delex, KEY, { redis: '8.4.0' }],
  delifeq: [3, 'w', delifeq, KEY, { valkey: '9.0.0' }],
  digest: [2, 'r', digest, KEY, { redis: '8.4.0' }],
  get: [2, 'r', get, KEY],
  getbit: [3, 'r', getbit, KEY],
  getdel: [2, 'w', getdel, KEY],
  getex: [-2, 'w', getex, KEY],
  getrange: [4, 'r', getrange, KEY],
  getset: [3, 'wm', getset, KEY],
  incr: [2, 'wm', bySign(1n), KEY],
  incrby: [3, 'wm', (argv, call) => increment(at(argv, 1), wide(at(argv, 2)), call), KEY],
  incrbyfloat: [3, 'wm', incrbyfloat, KEY],
  mget: [-2, 'r', mget, KEYS],
  mset: [-3, 'wm', mset('mset'), [1, -1, 2]],
  msetnx: [-3, 'wm', mset('msetnx'), [1, -1, 2]],
  psetex: [4, 'wm', setWithTtl('psetex'), KEY],
  set: [-3, 'wm', set, KEY],
  setbit: [4, 'wm', setbit, KEY],
  setex: [4, 'wm', setWithTtl('setex'), KEY],
  setnx: [3, 'wm', setnx, KEY],
  setrange: [4, 'wm', setrange, KEY],
  strlen: [2, 'r', strlen, KEY],
  substr: [4, 'r', getrange, KEY],
};
