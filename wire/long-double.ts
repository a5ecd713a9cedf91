/**
 * Numbers with a mantissa of 64 bits, as `long double` is on x86: `INCRBYFLOAT` adds those, so that sums differ from
 * those of doubles. The value is `mantissa * 2^exponent`.
 */
interface LongDouble {
  readonly mantissa: bigint;
  readonly exponent: number;
}

const BITS = 64;
const MAX_DECIMAL_EXPONENT = 4932;
const DIGITS = 17;

const DECIMAL = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i;

/** A long double from decimal text; `infinite` for such, `null` for what is none. */
export function parseLongDouble(text: string): LongDouble | 'infinite' | null {
  if (/^[+-]?inf(?:inity)?$/i.test(text)) return 'infinite';
  const read = DECIMAL.exec(text);
  if (read === null) return parseHexadecimal(text);
  const [, sign, whole = '', part = '', power = '0'] = read;
  if (whole === '' && part === '') return null;
  const exponent = Number(power) - part.length;
  const digits = BigInt(`${whole}${part}`);
  if (digits === 0n) return { mantissa: 0n, exponent: 0 };
  const size = digits.toString().length + exponent;
  if (size > MAX_DECIMAL_EXPONENT || size < -MAX_DECIMAL_EXPONENT) return null;
  const value =
    exponent >= 0 ? rounded(digits * 10n ** BigInt(exponent), 1n) : rounded(digits, 10n ** BigInt(-exponent));
  return sign === '-' ? { ...value, mantissa: -value.mantissa } : value;
}

const HEXADECIMAL = /^([+-]?)0x([\da-f]*)\.?([\da-f]*)(?:p([+-]?\d{1,5}))?$/i;

function parseHexadecimal(text: string): LongDouble | null {
  const [, sign, whole = '', part = '', power = '0'] = HEXADECIMAL.exec(text) ?? [];
  if (`${whole}${part}` === '') return null;
  const { mantissa, exponent } = rounded(BigInt(`0x${whole}${part}`), 1n);
  return { mantissa: sign === '-' ? -mantissa : mantissa, exponent: exponent + Number(power) - 4 * part.length };
}

/** The sum, rounded as a processor does. */
export function addLongDoubles(a: LongDouble, b: LongDouble): LongDouble {
  const exponent = Math.min(a.exponent, b.exponent);
  const sum = (a.mantissa << BigInt(a.exponent - exponent)) + (b.mantissa << BigInt(b.exponent - exponent));
  const { mantissa, exponent: more } = rounded(sum < 0n ? -sum : sum, 1n);
  return { mantissa: sum < 0n ? -mantissa : mantissa, exponent: exponent + more };
}

/** With up to 17 digits behind the point, and no zeros at the end. */
export function formatLongDouble({ mantissa, exponent }: LongDouble): string {
  const scaled = (mantissa < 0n ? -mantissa : mantissa) * 10n ** BigInt(DIGITS);
  const whole = exponent >= 0 ? scaled << BigInt(exponent) : divided(scaled, 1n << BigInt(-exponent));
  const digits = whole.toString().padStart(DIGITS + 1, '0');
  const part = digits.slice(-DIGITS).replace(/0+$/, '');
  const text = `${digits.slice(0, -DIGITS)}${part === '' ? '' : `.${part}`}`;
  return mantissa < 0n && text !== '0' ? `-${text}` : text;
}

/** The nearest quotient, the even one of two. */
function divided(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  const twice = (value % by) * 2n;
  return twice > by || (twice === by && quotient % 2n === 1n) ? quotient + 1n : quotient;
}

/** A quotient that is not negative, with as many bits as there are. */
function rounded(value: bigint, by: bigint): LongDouble {
  if (value === 0n) return { mantissa: 0n, exponent: 0 };
  let exponent = value.toString(2).length - by.toString(2).length - BITS;
  const quotient = (): bigint =>
    exponent >= 0 ? divided(value, by << BigInt(exponent)) : divided(value << BigInt(-exponent), by);
  let mantissa = quotient();
  while (mantissa >= 1n << BigInt(BITS)) {
    exponent++;
    mantissa = quotient();
  }
  return { mantissa, exponent };
}
