import type { LuaFunction, LuaStack } from './stack.js';

const DOUBLE = new Float64Array(1);
const HALVES = new Int32Array(DOUBLE.buffer);
/** 2^52 + 2^51: a double beside it has the nearest integer in its last bits. */
const SHIFTED = 6755399441055744;

/** A number as an integer of 32 bits, as the C library takes it: the last bits of a double. */
function bits(stack: LuaStack, index: number): number {
  DOUBLE[0] = stack.checkNumber(index) + SHIFTED;
  return HALVES[0] ?? 0;
}

function result(stack: LuaStack, value: number): number {
  stack.pushNumber(value | 0);
  return 1;
}

const fold =
  (join: (a: number, b: number) => number): LuaFunction =>
  (stack) => {
    let value = bits(stack, 1);
    for (let i = 2; i <= stack.top; i++) value = join(value, bits(stack, i));
    return result(stack, value);
  };

const shift =
  (by: (value: number, count: number) => number): LuaFunction =>
  (stack) =>
    result(stack, by(bits(stack, 1), bits(stack, 2) & 31));

function rotateLeft(value: number, count: number): number {
  return (value << count) | (value >>> ((32 - count) & 31));
}

function swapped(value: number): number {
  return ((value & 0xff) << 24) | ((value & 0xff00) << 8) | ((value >>> 8) & 0xff00) | (value >>> 24);
}

const tohex: LuaFunction = (stack) => {
  const value = bits(stack, 1);
  const wanted = stack.top < 2 ? 8 : bits(stack, 2);
  const digits = Math.min(8, Math.abs(wanted));
  const text = (value >>> 0)
    .toString(16)
    .padStart(8, '0')
    .slice(8 - digits);
  stack.pushText(wanted < 0 ? text.toUpperCase() : text);
  return 1;
};

/** The library `bit`: operations on integers of 32 bits. */
export const BIT: Readonly<Record<string, LuaFunction>> = {
  arshift: shift((value, count) => value >> count),
  band: fold((a, b) => a & b),
  bnot: (stack) => result(stack, ~bits(stack, 1)),
  bor: fold((a, b) => a | b),
  bswap: (stack) => result(stack, swapped(bits(stack, 1))),
  bxor: fold((a, b) => a ^ b),
  lshift: shift((value, count) => value << count),
  rol: shift(rotateLeft),
  ror: shift((value, count) => rotateLeft(value, (32 - count) & 31)),
  rshift: shift((value, count) => value >>> count),
  tobit: (stack) => result(stack, bits(stack, 1)),
  tohex,
};
