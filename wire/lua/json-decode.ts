import type { JsonOptions } from './json-encode.js';
import { LuaError, type LuaStack } from './stack.js';

type Token =
  | { readonly kind: 'T_STRING'; readonly text: string; readonly at: number }
  | { readonly kind: 'T_NUMBER'; readonly number: number; readonly at: number }
  | { readonly kind: 'T_BOOLEAN'; readonly value: boolean; readonly at: number }
  | { readonly kind: Mark; readonly at: number }
  | { readonly kind: 'T_ERROR'; readonly error: string; readonly at: number };

type Mark = 'T_OBJ_BEGIN' | 'T_OBJ_END' | 'T_ARR_BEGIN' | 'T_ARR_END' | 'T_NULL' | 'T_COLON' | 'T_COMMA' | 'T_END';

const MARKS: Readonly<Record<string, Mark>> = {
  '{': 'T_OBJ_BEGIN',
  '}': 'T_OBJ_END',
  '[': 'T_ARR_BEGIN',
  ']': 'T_ARR_END',
  ':': 'T_COLON',
  ',': 'T_COMMA',
};

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  t: '\t',
  n: '\n',
  f: '\f',
  r: '\r',
};

/** What `strtod` reads at a place. */
const NUMBER = /[+-]?(?:0x[\da-f]+(?:\.[\da-f]*)?|inf(?:inity)?|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)/iy;
const INVALID_NUMBER = /\+|-?(?:0[\dx]|inf|nan)/iy;

/** Reads JSON, as `cjson` does, and puts what it says on the stack. */
export class JsonReader {
  private readonly text: string;
  private readonly stack: LuaStack;
  private readonly options: JsonOptions;
  private at = 0;
  private depth = 0;

  constructor(text: string, stack: LuaStack, options: JsonOptions) {
    this.text = text;
    this.stack = stack;
    this.options = options;
  }

  /** The whole text as one value. */
  read(): void {
    this.value(this.token());
    const token = this.token();
    if (token.kind !== 'T_END') throw wrong('the end', token);
  }

  private value(token: Token): void {
    const { stack } = this;
    switch (token.kind) {
      case 'T_STRING':
        stack.pushText(token.text);
        return;
      case 'T_NUMBER':
        stack.pushNumber(token.number);
        return;
      case 'T_BOOLEAN':
        stack.pushBoolean(token.value);
        return;
      case 'T_NULL':
        stack.module._lua_pushlightuserdata(stack.state, 0);
        return;
      case 'T_OBJ_BEGIN':
        this.nested(() => this.object());
        return;
      case 'T_ARR_BEGIN':
        this.nested(() => this.array());
        return;
      default:
        throw wrong('value', token);
    }
  }

  private nested(read: () => void): void {
    this.depth++;
    if (this.depth > this.options.decodeDepth || !this.stack.reserve(4))
      throw new LuaError(`Found too many nested data structures (${this.depth}) at character ${this.at}`);
    this.stack.pushTable(0, 0);
    read();
    this.depth--;
  }

  private object(): void {
    let token = this.token();
    if (token.kind === 'T_OBJ_END') return;
    for (;;) {
      if (token.kind !== 'T_STRING') throw wrong('object key string', token);
      this.stack.pushText(token.text);
      const colon = this.token();
      if (colon.kind !== 'T_COLON') throw wrong('colon', colon);
      this.value(this.token());
      this.stack.setPair();
      const after = this.token();
      if (after.kind === 'T_OBJ_END') return;
      if (after.kind !== 'T_COMMA') throw wrong('comma or object end', after);
      token = this.token();
    }
  }

  private array(): void {
    let token = this.token();
    if (token.kind === 'T_ARR_END') return;
    for (let place = 1; ; place++) {
      this.value(token);
      this.stack.setItem(place);
      const after = this.token();
      if (after.kind === 'T_ARR_END') return;
      if (after.kind !== 'T_COMMA') throw wrong('comma or array end', after);
      token = this.token();
    }
  }

  private token(): Token {
    const { text } = this;
    while (/[ \t\n\r]/.test(text[this.at] ?? '')) this.at++;
    const { at } = this;
    const char = text[at];
    if (char === undefined || char === '\0') return { kind: 'T_END', at };
    const mark = MARKS[char];
    if (mark !== undefined) {
      this.at++;
      return { kind: mark, at };
    }
    if (char === '"') return this.string();
    for (const [word, token] of [
      ['true', { kind: 'T_BOOLEAN', value: true, at }],
      ['false', { kind: 'T_BOOLEAN', value: false, at }],
      ['null', { kind: 'T_NULL', at }],
    ] as const) {
      if (!text.startsWith(word, at)) continue;
      this.at += word.length;
      return token;
    }
    return this.number(char);
  }

  private number(char: string): Token {
    const { at } = this;
    INVALID_NUMBER.lastIndex = at;
    const isInvalid = INVALID_NUMBER.test(this.text);
    const mayBegin = /[-\d]/.test(char) || (this.options.decodeInvalid && isInvalid);
    if (!mayBegin) return { kind: 'T_ERROR', error: 'invalid token', at };
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(this.text)?.[0];
    if (found === undefined || (isInvalid && !this.options.decodeInvalid))
      return { kind: 'T_ERROR', error: 'invalid number', at };
    this.at += found.length;
    return { kind: 'T_NUMBER', number: toNumber(found.toLowerCase()), at };
  }

  private string(): Token {
    const { text, at } = this;
    let result = '';
    for (let i = at + 1; ; ) {
      const char = text[i];
      if (char === undefined || char === '\0') return { kind: 'T_ERROR', error: 'unexpected end of string', at };
      if (char === '"') {
        this.at = i + 1;
        return { kind: 'T_STRING', text: result, at };
      }
      if (char !== '\\') {
        result += char;
        i++;
      } else if (text[i + 1] === 'u') {
        const read = readUnicode(text, i);
        if (read === null) return { kind: 'T_ERROR', error: 'invalid unicode escape code', at };
        result += read.bytes;
        i = read.end;
      } else {
        const escaped = ESCAPES[text[i + 1] ?? ''];
        if (escaped === undefined) return { kind: 'T_ERROR', error: 'invalid escape code', at };
        result += escaped;
        i += 2;
      }
    }
  }
}

function wrong(wanted: string, token: Token): LuaError {
  const found = token.kind === 'T_ERROR' ? token.error : token.kind;
  return new LuaError(`Expected ${wanted} but found ${found} at character ${token.at + 1}`);
}

function toNumber(text: string): number {
  const [sign, size] = text.startsWith('-') ? [-1, text.slice(1)] : [1, text.replace('+', '')];
  if (size.startsWith('inf')) return sign * Number.POSITIVE_INFINITY;
  return size === 'nan' ? Number.NaN : sign * Number(size);
}

/** The UTF-8 bytes of the escape at a place, which may be a pair; `null` if it is none. */
function readUnicode(text: string, at: number): { readonly bytes: string; readonly end: number } | null {
  const unit = hexAt(text, at + 2);
  if (unit === null) return null;
  if ((unit & 0xf800) !== 0xd800) return { bytes: utf8(String.fromCharCode(unit)), end: at + 6 };
  const low = text.startsWith('\\u', at + 6) ? hexAt(text, at + 8) : null;
  if ((unit & 0x400) !== 0 || low === null || (low & 0xfc00) !== 0xdc00) return null;
  return { bytes: utf8(String.fromCharCode(unit, low)), end: at + 12 };
}

function hexAt(text: string, at: number): number | null {
  const digits = text.slice(at, at + 4);
  return /^[\da-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : null;
}

function utf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}
