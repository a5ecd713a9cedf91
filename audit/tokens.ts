import { randomBytes, randomInt, randomUUID } from 'node:crypto';

type Module = Readonly<Record<string, unknown>>;

/*
 * Packages that make tokens of random bytes which they have drawn before, and keep for all that use them: in an audit, one simulated
 * process would get what another one has drawn, and no run could be repeated.
 */

const NANOID = /^nanoid(?:\/(?:async|non-secure))?$/;
const UUID = /^uuid$/;
const ALPHABET = 'useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict';
const SIZE = 21;

function drawn(alphabet: string, size: number): string {
  return Array.from({ length: size }, () => alphabet[randomInt(alphabet.length)]).join('');
}

const nanoid = (size: number = SIZE): string => drawn(ALPHABET, size);

const ALL: Module = {
  nanoid,
  urlAlphabet: ALPHABET,
  random: (bytes: number) => randomBytes(bytes),
  customAlphabet:
    (alphabet: string, size: number = SIZE) =>
    (length: number = size) =>
      drawn(alphabet, length),
  customRandom:
    (alphabet: string, size: number) =>
    (length: number = size) =>
      drawn(alphabet, length),
};
/** An older one is that function itself. */
const TOKENS: Module = { __esModule: true, ...ALL, default: Object.assign((size?: number) => nanoid(size), ALL) };

/** What stands for such a package; `null` for every other one. */
export function tokensFor(request: string): Module | null {
  return NANOID.test(request) ? TOKENS : null;
}

/** The same package, where what it draws is drawn as it is asked for. */
export function withOwnDraws(request: string, namespace: Module): Module {
  if (!UUID.test(request)) return namespace;
  const own = {
    v4: (options?: unknown) =>
      options === undefined ? randomUUID() : Reflect.apply(namespace.v4 as () => unknown, null, [options]),
  };
  const whole = namespace.default;
  const inside = typeof whole === 'object' && whole !== null && 'v4' in whole ? { default: { ...whole, ...own } } : {};
  return { ...namespace, ...inside, ...own };
}
