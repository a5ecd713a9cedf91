import { at, integer, option, streamOf } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, NULL_ARRAY, type Reply, SYNTAX, wrongArity } from '../reply.js';
import { compareIds, Stream, type StreamEntry, type StreamId } from '../values.js';

/*
 * Streams as a log: entries that are added, counted, read by range and trimmed. `groups.ts` has what waits for entries, and groups of consumers.
 */

const INVALID_ID = fail('Invalid stream ID specified as stream command argument');
const NOT_ABOVE_ZERO = fail('The ID specified in XADD must be greater than 0-0');
const NOT_ABOVE_LAST = fail('The ID specified in XADD is equal or smaller than the target stream top item');
/** What Redis 7.0 says where a time has no sequence number left. */
const NO_SEQUENCE = fail('Elements are too large to be stored');
const BAD_START = fail('invalid start ID for the interval');
const BAD_END = fail('invalid end ID for the interval');
const EXHAUSTED = fail('The stream has exhausted the last possible ID, unable to add more items');

const ZERO: StreamId = { ms: 0n, seq: 0n };
/** The greatest part of an ID. */
const MOST = 2n ** 64n - 1n;

function partOf(text: string): bigint {
  const value = /^\s*\+?\d+$/.test(text) ? BigInt(text.replace('+', '')) : MOST + 1n;
  if (value > MOST) throw INVALID_ID;
  return value;
}

/** The ID in a text; throws where there is none. @param sequence - Of an ID that is a time alone. */
export function idOf(text: string, sequence: bigint): StreamId {
  const [, ms = '', , own] = /^([^-]*)(-(.*))?$/.exec(text) ?? [];
  return { ms: partOf(ms), seq: own === undefined ? sequence : partOf(own) };
}

/** An ID as it is written. */
export function textOf({ ms, seq }: StreamId): string {
  return `${ms}-${seq}`;
}

/** How a stream is trimmed: to so many entries, or from an ID on. */
interface Trim {
  readonly most: number | null;
  readonly from: StreamId | null;
  readonly isExact: boolean;
  /** The place behind it. */
  readonly next: number;
}

/** `MAXLEN [=|~] count` or `MINID [=|~] id` at a place; `null` where neither is there. */
function trimAt(argv: readonly string[], place: number): Trim | null {
  const by = option(argv, place);
  if ((by !== 'maxlen' && by !== 'minid') || argv[place + 1] === undefined) return null;
  const sign = at(argv, place + 1);
  // Without a value behind it, a mark is taken for that.
  const isMarked = (sign === '=' || sign === '~') && argv[place + 2] !== undefined;
  const value = place + (isMarked ? 2 : 1);
  if (option(argv, value + 1) === 'limit' && sign !== '~') throw LIMIT_EXACT;
  const most = by === 'maxlen' ? integer(at(argv, value)) : null;
  if (most !== null && most < 0) throw NEGATIVE;
  return { most, from: by === 'minid' ? idOf(at(argv, value), 0n) : null, isExact: sign !== '~', next: value + 1 };
}

const LIMIT_EXACT = fail('syntax error, LIMIT cannot be used without the special ~ option');
const NO_TRIM = fail('syntax error, XTRIM must be called with a trimming strategy');
const LIMIT_ALONE = fail('syntax error, LIMIT cannot be used without specifying a trimming strategy');
const NEGATIVE_LIMIT = fail('The LIMIT argument must be >= 0.');
const NEGATIVE = fail('The MAXLEN argument must be >= 0.');

/** How many entries of a stream are too old. */
function countOld({ entries }: Stream, { most, from }: Trim): number {
  if (most !== null) return Math.max(0, entries.length - most);
  const kept = from === null ? 0 : entries.findIndex(({ id }) => compareIds(id, from) >= 0);
  return kept < 0 ? entries.length : kept;
}

/**
 * Removes what is too old, and says how many entries that were. An approximate trim removes whole nodes of the tree, and no more entries
 * than its limit.
 *
 * @param nodeEntries - The entries of a full node.
 */
function trim(stream: Stream, trims: Trim, limit: number | null, nodeEntries: number): number {
  const { entries } = stream;
  const old = countOld(stream, trims);
  if (trims.isExact) return entries.splice(0, old).length;
  const most = limit ?? Math.min(nodeEntries > 0 ? 100 * nodeEntries : 10_000, 1_000_000);
  const isEnd = (at: number): boolean => entries[at - 1]?.node !== entries[at]?.node;
  let count = most === 0 ? old : Math.min(old, most);
  while (count > 0 && !isEnd(count)) count--;
  return entries.splice(0, count).length;
}

function nextId({ last }: Stream, nowMs: number): StreamId {
  const now = BigInt(Math.floor(nowMs));
  if (now > last.ms) return { ms: now, seq: 0n };
  return last.seq === MOST ? { ms: last.ms + 1n, seq: 0n } : { ms: last.ms, seq: last.seq + 1n };
}

/** The ID that an entry is given: `*`, `5-*`, or written out. */
function idFor(text: string, stream: Stream, nowMs: number): StreamId {
  const { last } = stream;
  if (last.ms === MOST && last.seq === MOST) throw EXHAUSTED;
  if (text === '*') return nextId(stream, nowMs);
  const isOpen = text.endsWith('-*');
  const ms = isOpen ? partOf(text.slice(0, -2)) : 0n;
  const id = isOpen ? { ms, seq: ms === last.ms ? last.seq + 1n : 0n } : idOf(text, 0n);
  if (id.seq > MOST) throw NO_SEQUENCE;
  if (compareIds(id, last) <= 0) throw NOT_ABOVE_LAST;
  return id;
}

/** What is said of trimming from a place on: the last of each option counts. */
interface Options {
  readonly trims: Trim | null;
  /** Whether a stream is made where there is none. */
  readonly makes: boolean;
  readonly limit: number | null;
  /** The place behind them. */
  readonly next: number;
}

function optionsAt(argv: readonly string[], from: number): Options {
  let [place, makes, trims, limit] = [from, true, null as Trim | null, null as number | null];
  for (;;) {
    const more = trimAt(argv, place);
    if (more !== null) {
      trims = more;
      place = more.next;
    } else if (option(argv, place) === 'nomkstream') {
      makes = false;
      place++;
    } else if (option(argv, place) === 'limit' && argv[place + 1] !== undefined) {
      limit = integer(at(argv, place + 1));
      if (limit < 0) throw NEGATIVE_LIMIT;
      place += 2;
    } else return { trims, makes, limit, next: place };
  }
}

/** A limit is for trims that are not exact. */
function checkLimit({ limit, trims }: Options): void {
  if (limit !== null && trims?.isExact !== false) throw limit > 0 && trims === null ? LIMIT_ALONE : LIMIT_EXACT;
}

function nodeEntriesOf({ config }: Call['instance']): number {
  return Number(config.get('stream-node-max-entries'));
}

const xadd: Handler = (argv, { keys, instance }) => {
  const options = optionsAt(argv, 2);
  const { trims, makes, next: place } = options;
  const fields = argv.slice(place + 1);
  const text = at(argv, place);
  const isZero = text !== '*' && !text.endsWith('-*') && compareIds(idOf(text, 0n), ZERO) === 0;
  if (text !== '*' && !isZero) idOf(text.endsWith('-*') ? text.slice(0, -2) : text, 0n);
  checkLimit(options);
  if (fields.length === 0 || fields.length % 2 > 0) throw wrongArity('xadd');
  if (isZero) throw NOT_ABOVE_ZERO;
  const key = at(argv, 1);
  const found = streamOf(keys.find(key));
  if (found === null && !makes) return null;
  const stream = found ?? new Stream();
  const id = idFor(text, stream, instance.nowMs);
  stream.add(id, fields, nodeEntriesOf(instance));
  if (trims !== null) trim(stream, trims, options.limit, nodeEntriesOf(instance));
  if (found === null) keys.store(key, stream, NEVER);
  else keys.changed(key);
  return textOf(id);
};

/** An entry as it is answered. */
export function replyOf({ id, fields }: StreamEntry): Reply {
  return [textOf(id), [...fields]];
}

/** An end of a range: an ID, `-` or `+`; after `(` it is not part of it. */
export function boundOf(text: string, isStart: boolean): StreamId {
  if (text === '-') return ZERO;
  if (text === '+') return { ms: MOST, seq: MOST };
  if (!text.startsWith('(')) return idOf(text, isStart ? 0n : MOST);
  const { ms, seq } = idOf(text.slice(1), isStart ? 0n : MOST);
  if (isStart) {
    if (ms === MOST && seq === MOST) throw BAD_START;
    return seq === MOST ? { ms: ms + 1n, seq: 0n } : { ms, seq: seq + 1n };
  }
  if (ms === 0n && seq === 0n) throw BAD_END;
  return seq === 0n ? { ms: ms - 1n, seq: MOST } : { ms, seq: seq - 1n };
}

const ranged =
  (isReverse: boolean): Handler =>
  (argv, { keys }) => {
    const [first, second] = [at(argv, 2), at(argv, 3)];
    const [from, to] = isReverse ? [second, first] : [first, second];
    const [start, end] = [boundOf(from, true), boundOf(to, false)];
    let count = Number.POSITIVE_INFINITY;
    for (let place = 4; place < argv.length; place += 2) {
      if (option(argv, place) !== 'count' || argv[place + 1] === undefined) throw SYNTAX;
      count = integer(at(argv, place + 1));
    }
    const stream = streamOf(keys.find(at(argv, 1)));
    if (stream === null) return [];
    if (count <= 0) return NULL_ARRAY;
    const within = stream.entries.filter(({ id }) => compareIds(id, start) >= 0 && compareIds(id, end) <= 0);
    if (isReverse) within.reverse();
    return within.slice(0, count).map(replyOf);
  };

const xdel: Handler = (argv, { keys }: Call) => {
  const key = at(argv, 1);
  const stream = streamOf(keys.find(key));
  if (stream === null) return 0;
  const ids = argv.slice(2).map((it) => idOf(it, 0n));
  const before = stream.entries.length;
  stream.entries = stream.entries.filter(({ id }) => !ids.some((it) => compareIds(it, id) === 0));
  if (stream.entries.length < before) keys.changed(key);
  return before - stream.entries.length;
};

const xtrim: Handler = (argv, { keys, instance }) => {
  const options = optionsAt(argv, 2);
  const { trims, next } = options;
  if (next !== argv.length || !options.makes) throw SYNTAX;
  checkLimit(options);
  if (trims === null) throw NO_TRIM;
  const stream = streamOf(keys.find(at(argv, 1)));
  const count = stream === null ? 0 : trim(stream, trims, options.limit, nodeEntriesOf(instance));
  if (count > 0) keys.changed(at(argv, 1));
  return count;
};

/** Commands on streams. */
export const STREAMS: Readonly<Record<string, Row>> = {
  xadd: [-5, 'wm', xadd, KEY],
  xlen: [2, 'r', (argv, { keys }) => streamOf(keys.find(at(argv, 1)))?.entries.length ?? 0, KEY],
  xrange: [-4, 'r', ranged(false), KEY],
  xrevrange: [-4, 'r', ranged(true), KEY],
  xdel: [-3, 'w', xdel, KEY],
  xtrim: [-4, 'w', xtrim, KEY],
};
