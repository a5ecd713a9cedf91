import { BadArgument, LuaError, type LuaFunction, type LuaStack, TYPE } from './stack.js';

const MAX_NESTING = 16;

/** A number in so many bytes, the highest first. */
function bigEndian(value: number | bigint, bytes: number): string {
  let rest = BigInt.asUintN(bytes * 8, BigInt(value));
  let text = '';
  for (let i = 0; i < bytes; i++) {
    text = String.fromCharCode(Number(rest & 0xffn)) + text;
    rest >>= 8n;
  }
  return text;
}

/** The first of the forms that the size fits in. */
function sized(size: number, forms: readonly (readonly [most: number, mark: number, bytes: number])[]): string {
  for (const [most, mark, bytes] of forms) {
    if (size > most) continue;
    return bytes === 0 ? String.fromCharCode(mark | size) : String.fromCharCode(mark) + bigEndian(size, bytes);
  }
  return '';
}

const TEXT_SIZES = [
  [31, 0xa0, 0],
  [0xff, 0xd9, 1],
  [0xffff, 0xda, 2],
  [2 ** 32, 0xdb, 4],
] as const;
const LIST_SIZES = [
  [15, 0x90, 0],
  [0xffff, 0xdc, 2],
  [2 ** 32, 0xdd, 4],
] as const;
const MAP_SIZES = [
  [15, 0x80, 0],
  [0xffff, 0xde, 2],
  [2 ** 32, 0xdf, 4],
] as const;

function packInteger(value: number): string {
  if (value >= 0) {
    const small = sized(value, [
      [127, 0, 0],
      [0xff, 0xcc, 1],
      [0xffff, 0xcd, 2],
      [0xffffffff, 0xce, 4],
    ]);
    return small !== '' ? small : `\xcf${bigEndian(BigInt(value), 8)}`;
  }
  if (value >= -32) return String.fromCharCode(value & 0xff);
  for (const [least, mark, bytes] of [
    [-128, '\xd0', 1],
    [-32768, '\xd1', 2],
    [-2147483648, '\xd2', 4],
  ] as const)
    if (value >= least) return mark + bigEndian(value, bytes);
  return `\xd3${bigEndian(BigInt(value), 8)}`;
}

function packNumber(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 63) return packInteger(value);
  const bytes = Buffer.alloc(8);
  if (Math.fround(value) === value) {
    bytes.writeFloatBE(value);
    return `\xca${bytes.toString('latin1', 0, 4)}`;
  }
  bytes.writeDoubleBE(value);
  return `\xcb${bytes.toString('latin1')}`;
}

/** Whether the table at the top has the places from 1 to its size, and how many pairs. */
function shapeOf(stack: LuaStack): { readonly isList: boolean; readonly size: number } {
  let [most, size, isList] = [0, 0, true];
  stack.pushNil();
  while (stack.next(-2)) {
    stack.pop();
    size++;
    const key = stack.type(-1) === TYPE.number ? stack.number(-1) : 0;
    if (key <= 0 || !Number.isInteger(key)) isList = false;
    else most = Math.max(most, key);
  }
  return { isList: isList && most === size, size };
}

/** The value at the top, which stays. */
function pack(stack: LuaStack, level: number): string {
  switch (stack.type(-1)) {
    case TYPE.string: {
      const text = stack.text(-1);
      return sized(text.length, TEXT_SIZES) + text;
    }
    case TYPE.boolean:
      return stack.boolean(-1) ? '\xc3' : '\xc2';
    case TYPE.number:
      return packNumber(stack.number(-1));
    case TYPE.table:
      return level === MAX_NESTING ? '\xc0' : packTable(stack, level);
    default:
      return '\xc0';
  }
}

function packTable(stack: LuaStack, level: number): string {
  stack.reserve(4);
  const { isList, size } = shapeOf(stack);
  let text = sized(size, isList ? LIST_SIZES : MAP_SIZES);
  for (let i = 1; isList && i <= size; i++) {
    stack.getItem(-1, i);
    text += pack(stack, level + 1);
    stack.pop();
  }
  if (isList) return text;
  stack.pushNil();
  while (stack.next(-2)) {
    stack.module._lua_pushvalue(stack.state, -2);
    text += pack(stack, level + 1);
    stack.pop();
    text += pack(stack, level + 1);
    stack.pop();
  }
  return text;
}

class Truncated extends LuaError {
  constructor() {
    super('Missing bytes in input.');
  }
}

/** Reads values from a place in bytes on, and puts them on the stack. */
class Reader {
  readonly bytes: Buffer;
  at: number;
  private readonly stack: LuaStack;

  constructor(text: string, at: number, stack: LuaStack) {
    this.bytes = Buffer.from(text, 'latin1');
    this.at = at;
    this.stack = stack;
  }

  private take(length: number): number {
    const from = this.at;
    if (from + length > this.bytes.length) throw new Truncated();
    this.at += length;
    return from;
  }

  private unsigned(bytes: number): number {
    return bytes === 8
      ? Number(this.bytes.readBigUInt64BE(this.take(8)))
      : this.bytes.readUIntBE(this.take(bytes), bytes);
  }

  private signed(bytes: number): number {
    return bytes === 8
      ? Number(this.bytes.readBigInt64BE(this.take(8)))
      : this.bytes.readIntBE(this.take(bytes), bytes);
  }

  private text(length: number): void {
    const from = this.take(length);
    this.stack.pushText(this.bytes.toString('latin1', from, from + length));
  }

  private list(size: number): void {
    this.stack.pushTable(0, 0);
    for (let i = 1; i <= size; i++) {
      this.value();
      this.stack.setItem(i);
    }
  }

  private map(size: number): void {
    this.stack.pushTable(0, 0);
    for (let i = 0; i < size; i++) {
      this.value();
      this.value();
      this.stack.setPair();
    }
  }

  value(): void {
    const { stack } = this;
    if (!stack.reserve(4))
      throw new LuaError('too many return values at once; use unpack_one or unpack_limit instead.');
    const mark = this.bytes[this.take(1)] ?? 0;
    if (mark <= 0x7f) {
      stack.pushNumber(mark);
      return;
    }
    if (mark >= 0xe0) {
      stack.pushNumber(mark - 0x100);
      return;
    }
    if (mark <= 0x8f) {
      this.map(mark & 0xf);
      return;
    }
    if (mark <= 0x9f) {
      this.list(mark & 0xf);
      return;
    }
    if (mark <= 0xbf) {
      this.text(mark & 0x1f);
      return;
    }
    this.marked(mark);
  }

  private marked(mark: number): void {
    const { stack } = this;
    if (mark === 0xc0) {
      stack.pushNil();
      return;
    }
    if (mark === 0xc2 || mark === 0xc3) {
      stack.pushBoolean(mark === 0xc3);
      return;
    }
    if (mark === 0xca) {
      stack.pushNumber(this.bytes.readFloatBE(this.take(4)));
      return;
    }
    if (mark === 0xcb) {
      stack.pushNumber(this.bytes.readDoubleBE(this.take(8)));
      return;
    }
    if (mark >= 0xcc && mark <= 0xcf) {
      stack.pushNumber(this.unsigned(1 << (mark - 0xcc)));
      return;
    }
    if (mark >= 0xd0 && mark <= 0xd3) {
      stack.pushNumber(this.signed(1 << (mark - 0xd0)));
      return;
    }
    if (mark >= 0xd9 && mark <= 0xdb) {
      this.text(this.unsigned(1 << (mark - 0xd9)));
      return;
    }
    if (mark === 0xdc || mark === 0xdd) {
      this.list(this.unsigned(mark === 0xdc ? 2 : 4));
      return;
    }
    if (mark === 0xde || mark === 0xdf) {
      this.map(this.unsigned(mark === 0xde ? 2 : 4));
      return;
    }
    throw new LuaError('Bad data format in input.');
  }
}

/** Reads up to `limit` values, with the next place in front, -1 at the end; or all, without a place, where both are 0. */
function unpack(stack: LuaStack, limit: number, offset: number): number {
  const text = stack.checkText(1);
  if (offset < 0 || limit < 0)
    throw new LuaError(`Invalid request to unpack with offset of ${offset} and limit of ${text.length}.`);
  if (offset > text.length) throw new LuaError(`Start offset ${offset} greater than input length ${text.length}.`);
  const reader = new Reader(text, offset, stack);
  const isAll = limit === 0 && offset === 0;
  let count = 0;
  while (reader.at < reader.bytes.length && (isAll || count < limit)) {
    reader.value();
    count++;
  }
  if (isAll) return count;
  const { module, state, top } = stack;
  module._lua_pushnumber(state, reader.at < reader.bytes.length ? reader.at : -1);
  module._lua_insert(state, top - count + 1);
  return count + 1;
}

function optional(stack: LuaStack, index: number, otherwise: number): number {
  return stack.type(index) > 0 ? Math.trunc(stack.checkNumber(index)) : otherwise;
}

/** The library `cmsgpack`. */
export const MSGPACK: Readonly<Record<string, LuaFunction>> = {
  pack: (stack) => {
    const count = stack.top;
    if (count === 0) throw new BadArgument(0, 'MessagePack pack needs input.');
    let text = '';
    for (let i = 1; i <= count; i++) {
      stack.module._lua_pushvalue(stack.state, i);
      text += pack(stack, 0);
      stack.pop();
    }
    stack.pushText(text);
    return 1;
  },
  unpack: (stack) => unpack(stack, 0, 0),
  unpack_one: (stack) => unpack(stack, 1, optional(stack, 2, 0)),
  unpack_limit: (stack) => unpack(stack, Math.trunc(stack.checkNumber(2)), optional(stack, 3, 0)),
};
