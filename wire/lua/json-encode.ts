import { formatG } from '../text.js';
import { LuaError, type LuaStack, TYPE } from './stack.js';

/** What `cjson` can be told. */
export interface JsonOptions {
  sparseConvert: boolean;
  sparseRatio: number;
  sparseSafe: number;
  encodeDepth: number;
  decodeDepth: number;
  precision: number;
  encodeInvalid: boolean | 'null';
  decodeInvalid: boolean;
}

/** Its options as it begins. */
export function jsonDefaults(): JsonOptions {
  return {
    sparseConvert: false,
    sparseRatio: 2,
    sparseSafe: 10,
    encodeDepth: 1000,
    decodeDepth: 1000,
    precision: 14,
    encodeInvalid: false,
    decodeInvalid: true,
  };
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is escaped.
const TO_ESCAPE = /["\\/\x00-\x1f\x7f]/g;

function quoted(text: string): string {
  const escaped = (char: string): string => ESCAPES[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return `"${text.replace(TO_ESCAPE, escaped)}"`;
}

/** Writes the value at the top of the stack, and leaves it there. */
export class JsonWriter {
  private readonly stack: LuaStack;
  private readonly options: JsonOptions;

  constructor(stack: LuaStack, options: JsonOptions) {
    this.stack = stack;
    this.options = options;
  }

  write(depth = 0): string {
    const { stack } = this;
    switch (stack.type(-1)) {
      case TYPE.string:
        return quoted(stack.text(-1));
      case TYPE.number:
        return this.number(-1);
      case TYPE.boolean:
        return stack.boolean(-1) ? 'true' : 'false';
      case TYPE.table:
        return this.table(depth + 1);
      case TYPE.nil:
        return 'null';
      case TYPE.light:
        if (stack.module._lua_touserdata(stack.state, -1) === 0) return 'null';
    }
    throw this.failure('type not supported');
  }

  private failure(why: string): LuaError {
    return new LuaError(`Cannot serialise ${this.stack.typeName(-1)}: ${why}`);
  }

  private number(index: number): string {
    const value = this.stack.number(index);
    const { encodeInvalid, precision } = this.options;
    if (!Number.isFinite(value)) {
      if (encodeInvalid === 'null') return 'null';
      if (!encodeInvalid) throw this.failure('must not be NaN or Inf');
    }
    return formatG(value, precision);
  }

  private table(depth: number): string {
    const { stack, options } = this;
    if (depth > options.encodeDepth || !stack.reserve(3))
      throw new LuaError(`Cannot serialise, excessive nesting (${depth})`);
    const length = this.arrayLength();
    return length > 0 ? this.array(length, depth) : this.object(depth);
  }

  /** The highest place of a list, or -1 for what is none. */
  private arrayLength(): number {
    const { stack, options } = this;
    let [most, count] = [0, 0];
    stack.pushNil();
    while (stack.next(-2)) {
      const key = stack.type(-2) === TYPE.number ? stack.number(-2) : 0;
      if (key < 1 || Math.floor(key) !== key) {
        stack.pop(2);
        return -1;
      }
      most = Math.max(most, key);
      count++;
      stack.pop();
    }
    if (options.sparseRatio > 0 && most > count * options.sparseRatio && most > options.sparseSafe) {
      if (!options.sparseConvert) throw this.failure('excessively sparse array');
      return -1;
    }
    return most;
  }

  private array(length: number, depth: number): string {
    const items: string[] = [];
    for (let i = 1; i <= length; i++) {
      this.stack.getItem(-1, i);
      items.push(this.write(depth));
      this.stack.pop();
    }
    return `[${items.join(',')}]`;
  }

  private object(depth: number): string {
    const { stack } = this;
    const items: string[] = [];
    stack.pushNil();
    while (stack.next(-2)) {
      const type = stack.type(-2);
      let key: string;
      if (type === TYPE.number) key = `"${this.number(-2)}"`;
      else if (type === TYPE.string) key = quoted(stack.text(-2));
      else {
        stack.pop();
        throw new LuaError('Cannot serialise table: table key must be a number or string');
      }
      items.push(`${key}:${this.write(depth)}`);
      stack.pop();
    }
    return `{${items.join(',')}}`;
  }
}
