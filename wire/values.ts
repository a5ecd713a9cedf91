import { SortedSet } from './sorted-set.js';
import { parseInteger } from './text.js';

/** Sizes from which on Redis keeps a value in its larger form; they are options of `CONFIG`. */
export interface Limits {
  readonly hashEntries: number;
  readonly hashValue: number;
  readonly setIntegers: number;
  readonly zsetEntries: number;
  readonly zsetValue: number;
}

/** A list of elements. */
export class List {
  items: string[];

  constructor(items: string[] = []) {
    this.items = items;
  }
}

/** Fields and values, in the order of their first writing. */
export class Hash {
  readonly fields: Map<string, string> = new Map();
  /** Has outgrown the small form, and stays so. */
  large = false;

  set(field: string, value: string, limits: Limits): boolean {
    const isNew = !this.fields.has(field);
    this.fields.set(field, value);
    if (field.length > limits.hashValue || value.length > limits.hashValue) this.large = true;
    if (this.fields.size > limits.hashEntries) this.large = true;
    return isNew;
  }
}

/** A set of members. */
export class MemberSet {
  readonly members: Set<string> = new Set();
  /** Has members that are no integers, or too many. */
  large = false;

  add(member: string, limits: Limits): boolean {
    if (this.members.has(member)) return false;
    this.members.add(member);
    if (!this.large && (parseInteger(member) === null || this.members.size > limits.setIntegers)) this.large = true;
    return true;
  }

  /** Integers come in their order, others in that of their adding. */
  list(): string[] {
    const members = [...this.members];
    if (this.large) return members;
    return members.sort((a, b) => compareIntegers(parseInteger(a) ?? 0, parseInteger(b) ?? 0));
  }
}

function compareIntegers(a: number | bigint, b: number | bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** What orders the entries of a stream: a time, ms, and a number among those of one. */
export interface StreamId {
  readonly ms: bigint;
  readonly seq: bigint;
}

/** Fields and values, in turns. */
export interface StreamEntry {
  readonly id: StreamId;
  readonly fields: readonly string[];
  /** The node of Redis's tree that it is in, and its place there: an approximate trim removes whole nodes. */
  readonly node: number;
  readonly place: number;
}

/** An entry that a consumer of a group was given, and has not acknowledged. */
export interface Pending {
  readonly id: StreamId;
  readonly consumer: string;
  /** When it was given last, ms of the server's clock. */
  readonly givenMs: number;
  /** How often it was given. */
  readonly times: number;
}

/** Consumers that share the entries of a stream. */
export interface Group {
  /** The last entry that one of them was given. */
  last: StreamId;
  /** In the order of their IDs. */
  pending: readonly Pending[];
  readonly consumers: Set<string>;
}

/** Entries in the order of their IDs. */
export class Stream {
  entries: StreamEntry[] = [];
  /** Of all that were ever in it. */
  last: StreamId = { ms: 0n, seq: 0n };
  readonly groups: Map<string, Group> = new Map();

  /** @param most - The entries of a full node; 0 for any number. */
  add(id: StreamId, fields: readonly string[], most: number): void {
    const { node, place } = this.entries.at(-1) ?? { node: 0, place: -1 };
    const isFull = most > 0 && place + 1 >= most;
    this.entries.push({ id, fields, node: isFull ? node + 1 : node, place: isFull ? 0 : place + 1 });
    this.last = id;
  }
}

/** Below 0 where the first comes first. */
export function compareIds(a: StreamId, b: StreamId): number {
  return a.ms < b.ms ? -1 : a.ms > b.ms ? 1 : a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : 0;
}

/** What a key holds. A string is bytes as Latin-1. */
export type Value = string | List | Hash | MemberSet | SortedSet | Stream;

/** The name of a value's type, as `TYPE` answers it. */
export function typeOf(value: Value): string {
  if (typeof value === 'string') return 'string';
  if (value instanceof List) return 'list';
  if (value instanceof Hash) return 'hash';
  if (value instanceof Stream) return 'stream';
  return value instanceof MemberSet ? 'set' : 'zset';
}

/** A copy that shares nothing with its original. */
export function copyOf(value: Value): Value {
  if (typeof value === 'string') return value;
  if (value instanceof List) return new List([...value.items]);
  if (value instanceof SortedSet) return value.copy();
  if (value instanceof Stream) {
    const stream = new Stream();
    stream.entries = [...value.entries];
    stream.last = value.last;
    for (const [name, it] of value.groups) stream.groups.set(name, { ...it, consumers: new Set(it.consumers) });
    return stream;
  }
  if (value instanceof Hash) {
    const hash = new Hash();
    for (const [field, it] of value.fields) hash.fields.set(field, it);
    hash.large = value.large;
    return hash;
  }
  const set = new MemberSet();
  for (const it of value.members) set.members.add(it);
  set.large = value.large;
  return set;
}

/** About how many bytes a value takes. */
export function sizeOf(value: Value): number {
  const sum = (texts: Iterable<string>): number => {
    let size = 0;
    for (const it of texts) size += it.length + ELEMENT_BYTES;
    return size;
  };
  if (typeof value === 'string') return value.length;
  if (value instanceof List) return sum(value.items);
  if (value instanceof Hash) return sum(value.fields.keys()) + sum(value.fields.values());
  if (value instanceof MemberSet) return sum(value.members);
  if (value instanceof Stream) return sum(value.entries.flatMap(({ fields }) => fields));
  return sum(value.all().map(({ member }) => member)) + value.size * ELEMENT_BYTES;
}

const ELEMENT_BYTES = 8;

const EMBEDDED = 44;

/** The name of the form in which Redis keeps a value, as `OBJECT ENCODING` answers it. */
export function encodingOf(value: Value, form: 'auto' | 'text' | 'raw'): string {
  if (typeof value === 'string') {
    if (form === 'raw') return 'raw';
    if (form === 'auto' && value.length <= 20 && parseInteger(value) !== null) return 'int';
    return value.length <= EMBEDDED ? 'embstr' : 'raw';
  }
  if (value instanceof List) return 'quicklist';
  if (value instanceof Stream) return 'stream';
  if (value instanceof Hash) return value.large ? 'hashtable' : 'listpack';
  if (value instanceof MemberSet) return value.large ? 'hashtable' : 'intset';
  return value.large ? 'skiplist' : 'listpack';
}
