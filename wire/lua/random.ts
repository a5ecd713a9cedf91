import { BadArgument, LuaError, type LuaFunction, type LuaStack } from './stack.js';

const MULTIPLIER = 0x5deece66dn;
const INCREMENT = 0xbn;
const MASK = (1n << 48n) - 1n;
const FIRST = 0x1234abcd330en;
const MAX = 2 ** 31 - 1;

/** The numbers that `math.random` draws from: always the same ones, in a server that starts. */
export class ScriptRandom {
  private state = FIRST;

  seed(value: number): void {
    this.state = (BigInt.asUintN(32, BigInt(Math.trunc(value))) << 16n) | 0x330en;
  }

  /** From 0 to 1, excluded. */
  next(): number {
    this.state = (this.state * MULTIPLIER + INCREMENT) & MASK;
    return (Number(this.state >> 17n) % MAX) / MAX;
  }
}

const int = (stack: LuaStack, index: number): number => Math.trunc(stack.checkNumber(index)) | 0;

/** `math.random` and `math.randomseed`, of the server that runs a script now. */
export function randomLibrary(current: () => ScriptRandom): Readonly<Record<string, LuaFunction>> {
  return {
    random: (stack) => {
      const count = stack.top;
      if (count > 2) throw new LuaError('wrong number of arguments');
      const [low, high] = count === 2 ? [int(stack, 1), int(stack, 2)] : [1, count === 1 ? int(stack, 1) : 1];
      if (low > high) throw new BadArgument(count, 'interval is empty');
      const drawn = current().next();
      stack.pushNumber(count === 0 ? drawn : Math.floor(drawn * (high - low + 1)) + low);
      return 1;
    },
    randomseed: (stack) => {
      current().seed(stack.checkNumber(1));
      return 0;
    },
  };
}
