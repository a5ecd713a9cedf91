import { PARTS } from './partly-known.js';
import { isUnknown, unknownValue } from './unknown.js';

/*
 * Functions of JavaScript and Node that take no value of which nothing is known, or end the process for it: they are given its text.
 */

const known = (it: unknown): unknown => (isUnknown(it) ? String(it) : it);

type Make = (...given: readonly unknown[]) => unknown;

/** The same class, or function, with what it is given replaced. */
function given<F extends object>(it: F, replaced: (one: unknown) => unknown): F {
  return new Proxy(it, {
    apply: (make, self, [first, ...more]: unknown[]) => Reflect.apply(make as Make, self, [replaced(first), ...more]),
    construct: (make, [first, ...more]: unknown[], whole) =>
      Reflect.construct(make as never, [replaced(first), ...more], whole) as object,
  });
}

const parts = (it: unknown): unknown => (isUnknown(it) || !Array.isArray(it) ? [known(it)] : it.map(known));
const buffers = (it: unknown): unknown =>
  (parts(it) as unknown[]).map((one) => (typeof one === 'string' ? Buffer.from(one) : one));

const ofBuffer: Readonly<Record<string, unknown>> = {
  from: given(Buffer.from, known),
  byteLength: given(Buffer.byteLength, known),
  concat: given(Buffer.concat, buffers),
};

/** What the parts of a request read as, where it is not known what they hold. */
const IS_PLAIN = /^[\w:.-]{1,64}$/;

/** Gives what is not known for the text of that. */
function parse(text: unknown, ...more: readonly unknown[]): unknown {
  try {
    return (JSON.parse as Make)(known(text), ...more);
  } catch (error) {
    if (!IS_PLAIN.test(String(text))) throw error;
    return unknownValue({}, String(text));
  }
}

/** Of each map and each set, the keys that are parts of jobs and requests: of equal ones, that which it was given first. */
const KEYS = new WeakMap<object, Map<string, unknown>>();

/** The key by which a map or a set has it: two jobs about one thing have a part each, which would be one text. */
function keyIn(all: object, key: unknown): unknown {
  const part = isUnknown(key) ? PARTS.get(key as object) : undefined;
  if (part === undefined) return key;
  const keys = KEYS.get(all) ?? new Map<string, unknown>();
  KEYS.set(all, keys);
  if (!keys.has(part)) keys.set(part, key);
  return keys.get(part);
}

class MapOfFile extends Map<unknown, unknown> {
  /** Those of packages are maps, too. */
  static override [Symbol.hasInstance](it: unknown): boolean {
    return Object(it)[Symbol.toStringTag] === 'Map';
  }

  override get(key: unknown): unknown {
    return super.get(keyIn(this, key));
  }

  override has(key: unknown): boolean {
    return super.has(keyIn(this, key));
  }

  override set(key: unknown, value: unknown): this {
    return super.set(keyIn(this, key), value);
  }

  override delete(key: unknown): boolean {
    return super.delete(keyIn(this, key));
  }
}

class SetOfFile extends Set<unknown> {
  static override [Symbol.hasInstance](it: unknown): boolean {
    return Object(it)[Symbol.toStringTag] === 'Set';
  }

  override has(key: unknown): boolean {
    return super.has(keyIn(this, key));
  }

  override add(key: unknown): this {
    return super.add(keyIn(this, key));
  }

  override delete(key: unknown): boolean {
    return super.delete(keyIn(this, key));
  }
}

/** By their names, as a file finds them. */
export const NATIVES: Readonly<Record<string, unknown>> = {
  // Node loads it when it is asked for first.
  get Blob() {
    return given(Blob, parts);
  },
  Buffer: new Proxy(Buffer, { get: (all, name) => ofBuffer[String(name)] ?? (Reflect.get(all, name) as unknown) }),
  JSON: new Proxy(JSON, { get: (all, name) => (name === 'parse' ? parse : (Reflect.get(all, name) as unknown)) }),
  Map: MapOfFile,
  Set: SetOfFile,
  URLSearchParams: given(URLSearchParams, known),
  structuredClone: (it: unknown, ...more: readonly unknown[]) =>
    isUnknown(it) ? it : (structuredClone as Make)(it, ...more),
};
