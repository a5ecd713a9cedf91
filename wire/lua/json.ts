import { JsonReader } from './json-decode.js';
import { type JsonOptions, JsonWriter, jsonDefaults } from './json-encode.js';
import { BadArgument, LuaError, type LuaFunction, type LuaStack, TYPE } from './stack.js';

const MAX_INT = 2 ** 31 - 1;

function onlyOne(stack: LuaStack): void {
  if (stack.top !== 1) throw new BadArgument(1, 'expected 1 argument');
}

function atMost(stack: LuaStack, count: number): void {
  if (stack.top > count) throw new BadArgument(count + 1, 'found too many arguments');
}

type NumberOption = 'sparseRatio' | 'sparseSafe' | 'encodeDepth' | 'decodeDepth' | 'precision';

/** Sets an option of whole numbers, if it is given, and answers what it is now. */
const numbered =
  (options: JsonOptions, name: NumberOption, range: readonly [number, number], index = 1) =>
  (stack: LuaStack): void => {
    if (stack.type(index) > 0) {
      const value = Math.trunc(stack.checkNumber(index));
      if (value < range[0] || value > range[1])
        throw new BadArgument(1, `expected integer between ${range[0]} and ${range[1]}`);
      options[name] = value;
    }
    stack.pushNumber(options[name]);
  };

function flagged<T extends boolean | 'null'>(stack: LuaStack, current: T, allowed: readonly T[]): T {
  const names: readonly string[] = allowed.map((it) => (it === true ? 'on' : it === false ? 'off' : 'null'));
  if (stack.type(1) > 0) {
    const given = stack.type(1) === TYPE.boolean ? (stack.boolean(1) ? 'on' : 'off') : stack.checkText(1);
    const found = allowed[names.indexOf(given)];
    if (found === undefined) throw new BadArgument(1, `invalid option '${given}'`);
    current = found;
  }
  if (current === 'null') stack.pushText('null');
  else stack.pushBoolean(current === true);
  return current;
}

/** The library `cjson`, with options of its own. */
export function jsonLibrary(): Readonly<Record<string, LuaFunction>> {
  const options = jsonDefaults();
  const single =
    (set: (stack: LuaStack) => void): LuaFunction =>
    (stack) => {
      atMost(stack, 1);
      set(stack);
      return 1;
    };
  return {
    encode: (stack) => {
      onlyOne(stack);
      stack.pushText(new JsonWriter(stack, options).write());
      return 1;
    },
    decode: (stack) => {
      onlyOne(stack);
      const text = stack.checkText(1);
      if (text.length >= 2 && (text[0] === '\0' || text[1] === '\0'))
        throw new LuaError('JSON parser does not support UTF-16 or UTF-32');
      new JsonReader(text, stack, options).read();
      return 1;
    },
    encode_sparse_array: (stack) => {
      atMost(stack, 3);
      options.sparseConvert = flagged(stack, options.sparseConvert, [false, true]);
      numbered(options, 'sparseRatio', [0, MAX_INT], 2)(stack);
      numbered(options, 'sparseSafe', [0, MAX_INT], 3)(stack);
      return 3;
    },
    encode_max_depth: single(numbered(options, 'encodeDepth', [1, MAX_INT])),
    decode_max_depth: single(numbered(options, 'decodeDepth', [1, MAX_INT])),
    encode_number_precision: single(numbered(options, 'precision', [1, 14])),
    // The buffer is not kept: nothing depends on it.
    encode_keep_buffer: single((stack) => void flagged(stack, true, [false, true])),
    encode_invalid_numbers: single((stack) => {
      options.encodeInvalid = flagged<boolean | 'null'>(stack, options.encodeInvalid, [false, true, 'null']);
    }),
    decode_invalid_numbers: single((stack) => {
      options.decodeInvalid = flagged(stack, options.decodeInvalid, [false, true]);
    }),
  };
}
