import crypto from 'node:crypto';
import zlib from 'node:zlib';
import { bytesOf } from './chance.js';
import { current } from './owner.js';

type Method = (...args: unknown[]) => unknown;

/** Functions with a callback for which Node has threads, and one of the same name with `Sync`, by their module. */
const COMPUTES: readonly (readonly [module: object, names: readonly string[]])[] = [
  [crypto, ['scrypt', 'pbkdf2', 'hkdf']],
  [
    zlib,
    ['gzip', 'gunzip', 'deflate', 'inflate', 'deflateRaw', 'inflateRaw', 'unzip', 'brotliCompress', 'brotliDecompress'],
  ],
];

/** The arguments of a callback of Node's style: an error, or what a call returns. */
function outcomeOf(call: () => unknown): readonly unknown[] {
  try {
    return [null, call()];
  } catch (error) {
    return [error];
  }
}

function replaceCallbacks(): void {
  for (const [module, names] of COMPUTES) {
    const methods = module as Record<string, Method | undefined>;
    for (const name of names) {
      const [native, atOnce] = [methods[name], methods[`${name}Sync`]];
      if (native === undefined || atOnce === undefined) continue;
      methods[name] = (...args) => {
        const { owner } = current;
        const callback = args.at(-1);
        if (owner === null || typeof callback !== 'function') return native.apply(module, args);
        const outcome = outcomeOf(() => atOnce.apply(module, args.slice(0, -1)));
        return void owner.setImmediate(() => void Reflect.apply(callback, undefined, outcome));
      };
    }
  }
}

function replaceDigest(): void {
  const { subtle } = globalThis.crypto;
  const native = subtle.digest.bind(subtle);
  const digest: typeof subtle.digest = async (algorithm, data) => {
    if (current.owner === null) return native(algorithm, data);
    const name = typeof algorithm === 'string' ? algorithm : algorithm.name;
    const hash = crypto.createHash(name.replace('-', '')).update(bytesOf(data)).digest();
    return new Uint8Array(hash).buffer;
  };
  Object.defineProperty(subtle, 'digest', { value: digest, configurable: true, writable: true });
}

/** Has simulated processes compute at once what Node computes in threads: nobody knows when a thread has. */
export function installComputing(): void {
  replaceCallbacks();
  replaceDigest();
}
