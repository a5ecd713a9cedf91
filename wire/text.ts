/** The largest integer of 64 bits. */
export const MAX_INTEGER: bigint = 2n ** 63n - 1n;
/** The smallest integer of 64 bits. */
export const MIN_INTEGER: bigint = -(2n ** 63n);

const INTEGER = /^(?:0|-?[1-9]\d{0,18})$/;

/**
 * An integer of 64 bits as Redis writes it, or `null`: no sign but `-`, no zeros in front. A `bigint` only where a number
 * would not be exact.
 */
export function parseInteger(text: string): number | bigint | null {
  if (!INTEGER.test(text)) return null;
  if (text.length <= 15) return Number(text);
  return narrow(BigInt(text));
}

/** The integer as a number where that is exact; `null` outside of 64 bits. */
export function narrow(value: bigint): number | bigint | null {
  if (value > MAX_INTEGER || value < MIN_INTEGER) return null;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const INFINITE = /^([+-]?)inf(?:inity)?$/i;
const HEX = /^([+-]?)0x([\da-f]*)\.?([\da-f]*)(?:p([+-]?\d+))?$/i;

/** A double as `strtod` reads it, or `null`: no blanks, no `nan`, nothing that is out of range. */
export function parseDouble(text: string): number | null {
  if (DECIMAL.test(text)) {
    const value = Number(text);
    const isZero = /^[^e]*[1-9]/i.test(text) && value === 0;
    return Number.isFinite(value) && !isZero ? value : null;
  }
  const infinite = INFINITE.exec(text);
  if (infinite !== null) return infinite[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const hex = HEX.exec(text);
  if (hex === null || `${hex[2]}${hex[3]}` === '') return null;
  const [, sign = '', whole = '', part = '', power = '0'] = hex;
  const size = Number(`0x${whole}${part}`) * 2 ** (Number(power) - 4 * part.length);
  return sign === '-' ? -size : size;
}

/** A double where Redis is less strict: nothing is 0, blanks may be in front, and what is too large is infinite. */
export function parseLoosely(text: string): number | null {
  const rest = text.replace(/^[ \t\n\v\f\r]+/, '');
  if (rest === '') return rest === text ? 0 : null;
  return DECIMAL.test(rest) ? Number(rest) : parseDouble(rest);
}

/** A double as C writes it with `%.<digits>g`. */
export function formatG(value: number, digits: number): string {
  if (Number.isNaN(value)) return Object.is(value, Number.NaN) ? 'nan' : '-nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const [mantissa = '', exponent = '0'] = value.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  if (power < -4 || power >= digits) {
    const size = String(Math.abs(power)).padStart(2, '0');
    return `${withoutZeros(mantissa)}e${power < 0 ? '-' : '+'}${size}`;
  }
  return withoutZeros(value.toFixed(Math.min(100, Math.max(0, digits - 1 - power))));
}

function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** A score or another double as Redis writes it in a reply. */
export function formatDouble(value: number): string {
  return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : formatG(value, 17);
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', a: '\x07' };

/** Words of a line, some in quotes, as `redis-cli` reads them; `null` if a quote is not closed. */
export function splitWords(line: string): string[] | null {
  const words: string[] = [];
  let at = 0;
  for (;;) {
    while (isBlank(line[at])) at++;
    if (at >= line.length || line[at] === '\0') return words;
    const read = readWord(line, at);
    if (read === null) return null;
    words.push(read.word);
    at = read.end;
  }
}

function isBlank(char: string | undefined): boolean {
  return char !== undefined && ' \t\n\v\f\r'.includes(char);
}

function readWord(line: string, from: number): { readonly word: string; readonly end: number } | null {
  let [word, quote, at] = ['', '', from];
  for (; ; at++) {
    const char = line[at];
    if (quote === '') {
      if (char === undefined || char === '\0' || isBlank(char)) return { word, end: at };
      if (char === '"' || char === "'") quote = char;
      else word += char;
    } else if (char === undefined) return null;
    else if (char === quote) {
      const next = line[at + 1];
      return next === undefined || isBlank(next) ? { word, end: at + 1 } : null;
    } else if (quote === '"' && char === '\\' && /^x[\da-f]{2}/i.test(line.slice(at + 1, at + 4))) {
      word += String.fromCharCode(Number.parseInt(line.slice(at + 2, at + 4), 16));
      at += 3;
    } else if (char === '\\' && at + 1 < line.length && (quote === '"' || line[at + 1] === "'")) {
      const next = line[++at] ?? '';
      word += quote === '"' ? (ESCAPES[next] ?? next) : next;
    } else word += char;
  }
}

/** Whether a text matches a pattern of `KEYS`, `SCAN` and `PSUBSCRIBE`. */
export function matches(pattern: string, text: string): boolean {
  return matchFrom(pattern, 0, text, 0, { failed: false });
}

function matchFrom(pattern: string, p: number, text: string, t: number, longer: { failed: boolean }): boolean {
  while (p < pattern.length && t < text.length) {
    const char = pattern[p];
    if (char === '*') {
      while (pattern[p + 1] === '*') p++;
      if (p + 1 === pattern.length) return true;
      for (; t < text.length; t++) {
        if (matchFrom(pattern, p + 1, text, t, longer)) return true;
        if (longer.failed) return false;
      }
      longer.failed = true;
      return false;
    }
    if (char === '[') {
      const read = matchClass(pattern, p + 1, text[t] ?? '');
      if (!read.matched) return false;
      p = read.end;
    } else {
      if (char === '\\' && p + 1 < pattern.length) p++;
      if (char !== '?' && pattern[p] !== text[t]) return false;
    }
    p++;
    t++;
  }
  if (t >= text.length) while (pattern[p] === '*') p++;
  return p >= pattern.length && t >= text.length;
}

/** Where the class that begins at `p` ends, and whether it has the character. */
function matchClass(pattern: string, from: number, char: string): { readonly matched: boolean; readonly end: number } {
  const not = pattern[from] === '^';
  let p = not ? from + 1 : from;
  let found = false;
  for (; ; p++) {
    const it = pattern[p];
    if (it === undefined) {
      p--;
      break;
    }
    if (it === '\\' && p + 1 < pattern.length) {
      p++;
      if (pattern[p] === char) found = true;
    } else if (it === ']') break;
    else if (p + 2 < pattern.length && pattern[p + 1] === '-') {
      const [low = '', high = ''] = [it, pattern[p + 2]].sort();
      if (char >= low && char <= high) found = true;
      p += 2;
    } else if (it === char) found = true;
  }
  return { matched: found !== not, end: p };
}
