import { BadArgument, LuaError, type LuaFunction, type LuaStack } from './stack.js';

const MAX_INTEGER_BYTES = 32;
const MAX_ALIGNMENT = 8;
const MAX_INT = 2 ** 31 - 1;

const SIZES: Readonly<Record<string, number>> = { b: 1, h: 2, l: 8, t: 8, f: 4, d: 8, x: 1 };

/** Reads a format, option by option, and keeps the byte order and the alignment that it asks for. */
class Format {
  isLittle = true;
  private alignment = 1;
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text.split('\0')[0] ?? '';
  }

  /** The next option with its size, `null` at the end. */
  next(): { readonly option: string; readonly size: number } | null {
    const option = this.text[this.at];
    if (option === undefined) return null;
    this.at++;
    return { option, size: this.sizeOf(option) };
  }

  private sizeOf(option: string): number {
    if (option === 'c') return this.count(1);
    if (option === 'i' || option === 'I') {
      const size = this.count(4);
      if (size > MAX_INTEGER_BYTES)
        throw new LuaError(`integral size ${size} is larger than limit of ${MAX_INTEGER_BYTES}`);
      return size;
    }
    return /[BbHhLlTfdx]/.test(option) ? (SIZES[option.toLowerCase()] ?? 0) : 0;
  }

  private count(otherwise: number): number {
    const digits = /^\d+/.exec(this.text.slice(this.at))?.[0];
    if (digits === undefined) return otherwise;
    this.at += digits.length;
    if (Number(digits) > MAX_INT) throw new LuaError('integral size overflow');
    return Number(digits);
  }

  /** How many bytes are left out before an option at a place. */
  padding(place: number, option: string, size: number): number {
    if (size === 0 || option === 'c') return 0;
    const by = Math.min(size, this.alignment);
    return (by - (place & (by - 1))) & (by - 1);
  }

  /** An option that is no value. */
  control(option: string): void {
    if (option === ' ') return;
    if (option === '<' || option === '>') this.isLittle = option === '<';
    else if (option === '!') {
      const alignment = this.count(MAX_ALIGNMENT);
      if (alignment === 0 || (alignment & (alignment - 1)) !== 0)
        throw new LuaError(`alignment ${alignment} is not a power of 2`);
      this.alignment = alignment;
    } else throw new BadArgument(1, `invalid format option '${option}'`);
  }
}

function ordered(bytes: number[], isLittle: boolean): string {
  return String.fromCharCode(...(isLittle ? bytes : bytes.reverse()));
}

/** The cast of C to 64 bits, with what x86-64 makes of numbers that do not fit. */
function asUnsigned(whole: number): bigint {
  if (whole >= 2 ** 64) return 0n;
  return whole >= -(2 ** 63) ? BigInt.asUintN(64, BigInt(whole)) : 1n << 63n;
}

function packInteger(value: number, size: number, isLittle: boolean): string {
  const whole = Math.trunc(value);
  let rest = asUnsigned(whole);
  const bytes = Array.from({ length: size }, () => {
    const byte = Number(rest & 0xffn);
    rest >>= 8n;
    return byte;
  });
  return ordered(bytes, isLittle);
}

function packFloat(value: number, size: number, isLittle: boolean): string {
  const bytes = Buffer.alloc(size);
  if (size === 4) bytes.writeFloatLE(value);
  else bytes.writeDoubleLE(value);
  return ordered([...bytes], isLittle);
}

const pack: LuaFunction = (stack) => {
  const format = new Format(stack.checkText(1));
  let [text, argument] = ['', 2];
  for (let it = format.next(); it !== null; it = format.next()) {
    const { option, size } = it;
    text += '\0'.repeat(format.padding(text.length, option, size));
    if (/[bBhHlLTiI]/.test(option)) text += packInteger(stack.checkNumber(argument++), size, format.isLittle);
    else if (option === 'x') text += '\0';
    else if (option === 'f' || option === 'd') text += packFloat(stack.checkNumber(argument++), size, format.isLittle);
    else if (option === 'c' || option === 's') {
      const value = stack.checkText(argument++);
      const length = size === 0 ? value.length : size;
      if (value.length < length) throw new BadArgument(argument, 'string too short');
      text += value.slice(0, length) + (option === 's' ? '\0' : '');
    } else format.control(option);
  }
  stack.pushText(text);
  return 1;
};

function readInteger(bytes: Buffer, isLittle: boolean, isSigned: boolean): number {
  let value = 0n;
  for (const byte of isLittle ? [...bytes].reverse() : bytes) value = BigInt.asUintN(64, (value << 8n) | BigInt(byte));
  return Number(isSigned ? BigInt.asIntN(Math.min(64, bytes.length * 8), value) : value);
}

function readFloat(bytes: Buffer, isLittle: boolean): number {
  const ordered = isLittle ? bytes : Buffer.from(bytes).reverse();
  return ordered.length === 4 ? ordered.readFloatLE() : ordered.readDoubleLE();
}

/** Takes the size off the stack that `c0` needs. */
function sizeBefore(stack: LuaStack, count: number): number {
  if (count === 0 || Number.isNaN(Number(stack.text(-1)))) throw new LuaError("format 'c0' needs a previous size");
  const size = stack.number(-1);
  stack.pop();
  return size;
}

const unpack: LuaFunction = (stack) => {
  const format = new Format(stack.checkText(1));
  const data = Buffer.from(stack.checkText(2), 'latin1');
  let at = (stack.type(3) > 0 ? Math.trunc(stack.checkNumber(3)) : 1) - 1;
  if (at < 0) throw new BadArgument(3, 'offset must be 1 or greater');
  let count = 0;
  const need = (size: number): void => {
    if (at + size > data.length) throw new BadArgument(2, 'data string too short');
  };
  for (let it = format.next(); it !== null; it = format.next()) {
    const { option } = it;
    let { size } = it;
    at += format.padding(at, option, size);
    need(size);
    if (!stack.reserve(2)) throw new LuaError('stack overflow (too many results)');
    if (/[bBhHlLTiI]/.test(option)) {
      stack.pushNumber(readInteger(data.subarray(at, at + size), format.isLittle, /[a-z]/.test(option)));
      count++;
    } else if (option === 'f' || option === 'd') {
      stack.pushNumber(readFloat(data.subarray(at, at + size), format.isLittle));
      count++;
    } else if (option === 'c') {
      if (size === 0) {
        size = sizeBefore(stack, count--);
        need(size);
      }
      stack.pushText(data.toString('latin1', at, at + size));
      count++;
    } else if (option === 's') {
      const end = data.indexOf(0, at);
      if (end < 0) throw new LuaError('unfinished string in data');
      stack.pushText(data.toString('latin1', at, end));
      count++;
      size = end - at + 1;
    } else if (option !== 'x') format.control(option);
    at += size;
  }
  stack.pushNumber(at + 1);
  return count + 1;
};

const size: LuaFunction = (stack) => {
  const format = new Format(stack.checkText(1));
  let at = 0;
  for (let it = format.next(); it !== null; it = format.next()) {
    at += format.padding(at, it.option, it.size);
    if (it.option === 's') throw new BadArgument(1, "option 's' has no fixed size");
    if (it.option === 'c' && it.size === 0) throw new BadArgument(1, "option 'c0' has no fixed size");
    if (!/[a-z0-9]/i.test(it.option)) format.control(it.option);
    at += it.size;
  }
  stack.pushNumber(at);
  return 1;
};

/** The library `struct`. */
export const STRUCT: Readonly<Record<string, LuaFunction>> = { pack, size, unpack };
