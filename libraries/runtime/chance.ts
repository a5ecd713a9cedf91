import crypto from 'node:crypto';
import { current, type ProcessContext } from './owner.js';

type Callback = (error: Error | null, value?: unknown) => void;

function fill(owner: ProcessContext, bytes: Uint8Array): void {
  let word = 0;
  for (let i = 0; i < bytes.length; i++) {
    if (i % 4 === 0) word = owner.randomWord();
    bytes[i] = word & 0xff;
    word >>>= 8;
  }
}

/** The bytes of a view, or of a part of it. @throws TypeError for anything else. */
export function bytesOf(view: unknown, offset = 0, size?: number): Uint8Array {
  if (view instanceof ArrayBuffer) return new Uint8Array(view, offset, size);
  if (!ArrayBuffer.isView(view)) throw new TypeError('expected a Buffer, TypedArray, DataView or ArrayBuffer');
  return new Uint8Array(view.buffer, view.byteOffset + offset, size ?? view.byteLength - offset);
}

/** RFC 9562, version 4. */
function uuid(owner: ProcessContext): `${string}-${string}-${string}-${string}-${string}` {
  const bytes = Buffer.alloc(16);
  fill(owner, bytes);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

function later(owner: ProcessContext, callback: unknown, value: unknown): void {
  owner.setImmediate(() => (callback as Callback)(null, value));
}

/** The ways to draw of a simulated process, by the names that `node:crypto` gives them. */
const DRAWS: Readonly<Record<string, (owner: ProcessContext, args: readonly unknown[]) => unknown>> = {
  randomBytes(owner, [size, callback]) {
    const bytes = Buffer.alloc(Number(size));
    fill(owner, bytes);
    return callback === undefined ? bytes : later(owner, callback, bytes);
  },
  randomFillSync(owner, [view, offset, size]) {
    fill(owner, bytesOf(view, offset as number | undefined, size as number | undefined));
    return view;
  },
  randomFill(owner, args) {
    const [view, offset, size] = args.slice(0, -1);
    fill(owner, bytesOf(view, offset as number | undefined, size as number | undefined));
    return later(owner, args.at(-1), view);
  },
  randomInt(owner, args) {
    const callback = typeof args.at(-1) === 'function' ? args.at(-1) : undefined;
    const [a = 0, b] = args.filter((it): it is number => typeof it === 'number');
    const [low, high] = b === undefined ? [0, a] : [a, b];
    const value = low + Math.floor(((owner.randomWord() >>> 0) / 2 ** 32) * (high - low));
    return callback === undefined ? value : later(owner, callback, value);
  },
  randomUUID: (owner) => uuid(owner),
  getRandomValues(owner, [view]) {
    fill(owner, bytesOf(view));
    return view;
  },
};

function replace(target: object, names: readonly string[]): void {
  const methods = target as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  for (const name of names) {
    const native = methods[name];
    const draw = DRAWS[name];
    // `getRandomValues` of `node:crypto` reads the one of Web Crypto, which is replaced as well.
    const fixed = Object.getOwnPropertyDescriptor(target, name)?.configurable === false;
    if (native === undefined || draw === undefined || fixed) continue;
    const value = (...args: unknown[]): unknown => {
      const { owner } = current;
      return owner === null ? native.apply(target, args) : draw(owner, args);
    };
    Object.defineProperty(target, name, { value, configurable: true, writable: true });
  }
}

/** Puts dispatchers in the place of everything that draws. */
export function installChance(): void {
  const native = Math.random;
  Math.random = () => current.owner?.random() ?? native();
  replace(crypto, Object.keys(DRAWS));
  replace(globalThis.crypto, ['getRandomValues', 'randomUUID']);
}
