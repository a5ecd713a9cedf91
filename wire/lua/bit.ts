import type { LuaFunction, LuaStack } from './stack.js';

/** A number as an integer of 32 bits: the nearest one, and its last bits. */
function bits(stack: LuaStack, index: number): number {
  const value = stack.checkNumber(index);
  const floor = Math.floor(value);
  const half = value - floor === 0.5;
  const nearest = half ? (floor % 2 === 0 ? floor : floor + 1) : Math.round(value);
  return Number(BigInt.asIntN(32, BigInt(Number.isFinite(nearest) ? nearest : 0)));
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
