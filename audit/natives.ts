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

/** By their names, as a file finds them. */
export const NATIVES: Readonly<Record<string, unknown>> = {
  // Node loads it when it is asked for first.
  get Blob() {
    return given(Blob, parts);
  },
  Buffer: new Proxy(Buffer, { get: (all, name) => ofBuffer[String(name)] ?? (Reflect.get(all, name) as unknown) }),
  JSON: new Proxy(JSON, { get: (all, name) => (name === 'parse' ? parse : (Reflect.get(all, name) as unknown)) }),
  URLSearchParams: given(URLSearchParams, known),
  structuredClone: (it: unknown, ...more: readonly unknown[]) =>
    isUnknown(it) ? it : (structuredClone as Make)(it, ...more),
};
